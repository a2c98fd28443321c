"""Cats and dogs, one kind a class: the mixture balances them, whatever the folders hold."""

from taskmix.spec import Bound, Column, Loss, Mixture, Net, SampleKind, Task

CLASSES = ("cat", "dog")

CATS_DOGS = Net(
  name="cats_dogs",
  input_size=(96, 96, 3),
  backbone="taskmix.model.pretrained:mobilenet_v2",
  tasks=(
    Task(
      name="label",
      target=Column("label", "int64", classes=CLASSES),
      kinds=CLASSES,
      loss=Loss("softmax_cross_entropy"),
      metrics=("accuracy",),
      bounds=(Bound("accuracy", min=0.7),),
    ),
  ),
  mixture=Mixture(tuple(SampleKind(name, 1) for name in CLASSES)),
)
