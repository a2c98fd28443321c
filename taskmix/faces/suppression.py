"""Non-maximum suppression in the graph: of boxes that overlap, the best stays.

Two ways of measuring an overlap: *union* is intersection over union; *min* is
intersection over the smaller of the two, which also drops a box inside another
(Zhang et al. 2016's release uses it after O-Net). And two rules for what a
dropped box still does:

- *greedy*: nothing; a box falls only to a better one that stays (the usual rule).
- *any*: it still counts; a box falls to any better one, kept or not (mtcnn 1.0.0).

Three boxes in a row, best first, where only neighbours overlap enough:

    [ A ]              greedy keeps A and C,
       [ B ]           any keeps A alone.
          [ C ]
"""

import tensorflow as tf

OVERLAPS = ("union", "min")
RULES = ("greedy", "any")

# Rows of the overlap matrix worked out at a time: 4,096 boxes need 8 MiB a
# temporary tensor instead of 64.
_ROWS = 512


def overlaps(boxes: tf.Tensor, others: tf.Tensor, *, over: str = "union") -> tf.Tensor:
  """How much of each box lies in each other one.

  Args:
    boxes: float32 [n, 4], x1 y1 x2 y2.
    others: float32 [m, 4], same frame.
    over: "union" or "min".

  Returns:
    float32 [n, m] in 0..1; 0 where a box has no area.
  """
  shared, whole = _shared_and_whole(boxes, others, over)
  return tf.math.divide_no_nan(shared, whole)


def keep_best(
  boxes: tf.Tensor, scores: tf.Tensor, *, threshold: float, over: str = "union", rule: str = "greedy"
) -> tf.Tensor:
  """Indices of the boxes that stay, best first.

  Args:
    boxes: float32 [n, 4], x1 y1 x2 y2.
    scores: float32 [n], in any order.
    threshold: a box falls to a better one that it overlaps by more than this.
    over: "union" or "min".
    rule: "greedy" or "any".

  Returns:
    int32 [k]. Of equal scores, the lower index counts as the better.

  Raises:
    ValueError: on an unknown `over` or `rule`.
  """
  if rule == "greedy":
    return _greedy(boxes, scores, threshold, over)
  if rule == "any":
    return _any(boxes, scores, threshold, over)
  raise ValueError(f"no suppression rule {rule!r}; there is {', '.join(RULES)}")


def _greedy(boxes: tf.Tensor, scores: tf.Tensor, threshold: float, over: str) -> tf.Tensor:
  count = tf.shape(boxes)[0]
  if over == "union":
    return tf.image.non_max_suppression(boxes, scores, count, iou_threshold=threshold)
  matrix = overlaps(boxes, boxes, over=over)
  return tf.image.non_max_suppression_overlaps(matrix, scores, count, overlap_threshold=threshold)


def _any(boxes: tf.Tensor, scores: tf.Tensor, threshold: float, over: str) -> tf.Tensor:
  order = tf.argsort(scores, direction="DESCENDING", stable=True)
  boxes = tf.gather(boxes, order)
  count = tf.shape(boxes)[0]

  def fallen(start: tf.Tensor) -> tf.Tensor:
    """Which boxes fall to one of the rows from `start`: bool [n]."""
    rows = boxes[start : start + _ROWS]
    shared, whole = _shared_and_whole(rows, boxes, over)
    better = tf.range(start, start + tf.shape(rows)[0])[:, None] < tf.range(count)[None, :]
    return tf.reduce_any((shared > threshold * whole) & better, axis=0)

  _, falls = tf.while_loop(
    lambda start, _: start < count,
    lambda start, falls: (start + _ROWS, falls | fallen(start)),
    (tf.constant(0), tf.zeros([count], tf.bool)),
  )
  return tf.boolean_mask(order, ~falls)


def _shared_and_whole(boxes: tf.Tensor, others: tf.Tensor, over: str) -> tuple[tf.Tensor, tf.Tensor]:
  """Area of each intersection, and what an overlap is a fraction of: float32 [n, m] both."""
  x1, y1, x2, y2 = (side[:, None] for side in tf.unstack(boxes, num=4, axis=1))
  u1, v1, u2, v2 = (side[None, :] for side in tf.unstack(others, num=4, axis=1))
  width = tf.nn.relu(tf.minimum(x2, u2) - tf.maximum(x1, u1))
  shared = width * tf.nn.relu(tf.minimum(y2, v2) - tf.maximum(y1, v1))
  area, other = (x2 - x1) * (y2 - y1), (u2 - u1) * (v2 - v1)
  if over == "union":
    return shared, area + other - shared
  if over == "min":
    return shared, tf.minimum(area, other)
  raise ValueError(f"no overlap {over!r}; there is {', '.join(OVERLAPS)}")
