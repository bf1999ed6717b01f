"""The writer of one run: steps drafted as they come, stored several in one go."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from threadmark import ids
from threadmark.checkpoint.base import NextStep, Step, StepWriter, TaskWrites, get_checkpoint_metadata
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import CheckpointDraft, Held, StepDraft, draft_next, draft_step, draft_tasks
from threadmark.checkpoint.facts import Constant
from threadmark.checkpoint.journal import Journal, NameTask
from threadmark.checkpoint.layout import Plain
from threadmark.checkpoint.names import ref_of
from threadmark.checkpoint.records import Ref
from threadmark.tuples import tuple_of

if TYPE_CHECKING:
    from threadmark.checkpoint.running import Running


class Lists:
    """The bytes of lists, made of earlier ones: those of a checkpoint, and those that were noted since."""

    __slots__ = ("_codec", "_ref", "_saver", "_since")

    def __init__(self, saver: Running, codec: Codec, ref: Ref) -> None:
        self._saver, self._codec, self._ref = saver, codec, ref
        self._since: dict[str, Plain] = {}

    def list_of(self, channel: str, items: Any, begins_with: Any) -> Plain | None:
        """See ``draft.Lists``."""
        earlier = self._since.get(channel)
        if earlier is None:
            earlier = self._saver._stored(self._ref, channel)
        return self._codec.dump_list(items, earlier, begins_with)

    def note(self, plains: Mapping[str, Plain], large: Set[str]) -> None:
        """These are newer."""
        self._since.update((name, plains[name]) for name in large & plains.keys())


class Writer(StepWriter):
    """Steps drafted by one thread, stored by whichever flushes."""

    def __init__(self, saver: Running, config: Any) -> None:
        self._saver, self._codec = saver, saver._codec
        self._ref = ref_of(config)
        self._drafts: deque[StepDraft] = deque()
        self._last: CheckpointDraft | None = None
        self._lists = Lists(saver, self._codec, self._ref)
        self._held: Held | None = None
        self._about: Any = None
        self._constant = Constant({})
        self._journal: Journal | None = None

    def beside(self, config: Any) -> Writer:
        """A writer for another namespace of the thread: this one stores what it is given, in the order of all."""
        made = Writer(self._saver, config)
        made._drafts = self._drafts
        return made

    def hold(self, writes: Sequence[TaskWrites]) -> None:
        """Encode the writes of the step that will be added next: what becomes of them until then does not count."""
        self._held = draft_tasks(writes, self._codec.dumps)

    def journal(self, about: Any, name: NameTask, *, guarded: bool) -> Journal | None:
        """What takes the supersteps that follow the last step, said briefly; None where the saver has no use for that.

        ``about``: see ``follow``. ``guarded``: each expects the one before as the newest checkpoint.
        """
        last, codec, (thread_id, ns, _) = self._last, self._codec, self._ref
        if last is None or self._drafts or not codec.is_ours:
            return None
        ref = Ref(thread_id, ns, last.id if guarded else None)
        self._journal = self._saver._new_journal(codec, ref, last, self._constant_of(about), name)
        return self._journal

    def add(self, step: Step) -> None:
        if self._journal is not None:
            self._last, self._journal = self._saver._unfolded(self._journal), None
        named, own, last, codec = step.config["configurable"], self._ref, self._last, self._codec
        id = named.get("checkpoint_id")
        held, self._held = self._held, None
        # As a rule a step follows the last one, and there is nothing to take apart.
        if (
            last is not None
            and id == last.id
            and named["thread_id"] == own.thread_id
            and named.get("checkpoint_ns") == own.ns
        ):
            ref = tuple_of(Ref, (own.thread_id, own.ns, id))
            draft = draft_step(step, ref, codec.dumps, codec.config_keys, last, self._lists, held)
        else:
            draft = self._saver._draft(codec, step, of_run=True, held=held)
        self._added(draft)

    def follow(self, about: Any, parent: str, step: NextStep) -> bool:
        """Add the superstep behind the last one, which ``parent`` names; False if that is another one.

        ``about`` is one pair for a whole run: a config, and metadata in which the number of the step does not count.
        """
        if self._journal is not None:
            self._last, self._journal = self._saver._unfolded(self._journal), None
        last, own, codec = self._last, self._ref, self._codec
        if last is None or last.id != parent:
            return False
        held, self._held = self._held, None
        facts = self._constant_of(about).facts(parent, step.number, ids.timestamp(step.moment), codec.dumps)
        ref = tuple_of(Ref, (own.thread_id, own.ns, parent))
        self._added(draft_next(ref, last, facts, step, codec.dumps, self._lists, held))
        return True

    def _added(self, draft: StepDraft) -> None:
        checkpoint = draft.checkpoint
        if checkpoint is not None:
            self._last = checkpoint
            if draft.large:
                self._lists.note(checkpoint.plains, draft.large)
        self._drafts.append(draft)

    def _constant_of(self, about: Any) -> Constant:
        if about is not self._about:
            config, metadata = self._about = about
            self._constant = Constant(get_checkpoint_metadata(config, metadata, self._codec.config_keys))
        return self._constant

    def _take(self) -> list[StepDraft]:
        drafts = self._drafts
        return [drafts.popleft()] if len(drafts) == 1 else [drafts.popleft() for _ in range(len(drafts))]

    def flush(self) -> None:
        drafts = self._take()
        if drafts:
            self._saver._commit(self._codec, drafts)

    async def aflush(self) -> None:
        if self._drafts:
            await self._saver._aflush(self._codec, self._take)
