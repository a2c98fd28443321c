import subprocess
import sys

import taskmix.sources


def test_readers_need_neither_tensorflow_nor_beam():
  modules = "; ".join(f"import taskmix.sources.{name}" for name in taskmix.sources.formats())
  heavy = "{'tensorflow', 'apache_beam', 'keras', 'tfx'} & set(sys.modules)"
  code = f"import sys; {modules}; import taskmix.faces.contact_sheet; sys.exit(str({heavy} or ''))"
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
  assert done.stderr.strip() == ""
