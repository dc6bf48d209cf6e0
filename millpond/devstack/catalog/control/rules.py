"""What a fault rule is: the requests it meets, and what is done to them."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, model_validator

from millpond.devstack.catalog.control.actions import CatalogAction
from millpond.devstack.catalog.wire import Body, Int64

Count = Annotated[int, Field(ge=1, le=2**31)]
Seconds = Annotated[float, Field(ge=0, le=600)]


def _as_list(given: Any) -> Any:
    return (given,) if isinstance(given, int) else tuple(given) if isinstance(given, list) else given


class Match(Body):
    """The requests a rule meets, and which of them it touches: without a choice all.

    `path_glob` is compared with the path as it was sent, without the query; `*` crosses slashes. `nth` counts
    the requests met, from 1, and takes one number or several. With a `seed` the dice of `probability` always
    fall the same way.
    """

    method: Annotated[str, Field(pattern=r"^[A-Z]+$")] | None = None
    path_glob: Annotated[str, Field(min_length=1)] = "/v1/*"
    nth: Annotated[tuple[Count, ...], BeforeValidator(_as_list), Field(min_length=1)] | None = None
    every: Count | None = None
    probability: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Int64 | None = None

    @model_validator(mode="after")
    def _check_choice(self) -> Self:
        chosen = [name for name in ("nth", "every", "probability") if getattr(self, name) is not None]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude each other")
        if self.seed is not None and self.probability is None:
            raise ValueError("seed needs probability")
        return self


class Answer(Body):
    """An answer given instead of the work: `body` is sent as JSON, `text` as it is, like a proxy's HTML."""

    status: Annotated[int, Field(ge=200, le=599)]
    body: Any = None
    text: str | None = None
    retry_after: int | str | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.body is not None and self.text is not None:
            raise ValueError("body and text exclude each other")
        return self


class Effect(Body):
    """What is done to a request, in this order; the work is the request as it would have been without a rule.

    1. `first`: catalog actions, all in one transaction.
    2. `delay_before_seconds`.
    3. `hang` or `close` at `before_work`: the work is never done.
    4. The work, or `answer` instead of it.
    5. `delay_after_seconds`, also when the client has gone meanwhile.
    6. `hang` at `before_answer`: silence until the client goes away. `close` at `before_answer`, `in_answer`
       (half of the body has left) or `after_answer`; with `reset` the client sees a reset, not an end.
    """

    first: tuple[CatalogAction, ...] = ()
    delay_before_seconds: Seconds = 0
    answer: Answer | None = None
    delay_after_seconds: Seconds = 0
    hang: Literal["before_work", "before_answer"] | None = None
    close: Literal["before_work", "before_answer", "in_answer", "after_answer"] | None = None
    reset: bool = False

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self == Effect.model_construct():
            raise ValueError("says nothing to do")
        if self.hang and self.close:
            raise ValueError("hang and close exclude each other")
        if self.reset and not self.close:
            raise ValueError("reset needs close")
        if "before_work" in (self.hang, self.close) and (self.answer or self.delay_after_seconds):
            raise ValueError("answer and delay_after_seconds come after before_work, where the request ends")
        return self


class Rule(Body):
    """One rule. A request is counted by every rule that meets it and touched by the first that is due."""

    match: Match
    do: Effect


class Rules(RootModel[tuple[Rule, ...]]):
    """A whole set of rules, as it is put."""

    model_config = ConfigDict(strict=True, frozen=True)
