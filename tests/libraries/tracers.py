"""The tracers that models are run under: sot, and Paddle's own."""

import contextlib
import dataclasses
import io
import os

import paddle


@dataclasses.dataclass
class Mode:
    """Counts of the first call in one mode: graphs, and breaks and fallbacks by reason."""

    graphs: int
    breaks: dict
    fallbacks: dict


class Sot:
    def __init__(self):
        import sot

        self.sot = sot

    def reset(self):
        self.sot.reset()

    def translate(self, function):
        return self.sot.symbolic_translate(function)

    def mode(self):
        stats = self.sot.stats()
        return Mode(stats.graphs, dict(stats.breaks), dict(stats.fallbacks))


class Paddle:
    """Paddle's own tracer with what it tells of itself, `SOT_COLLECT_INFO`. It does not tell of fallbacks."""

    def __init__(self):
        os.environ["SOT_COLLECT_INFO"] = "breakgraph_reason,subgraph_info,compile_count"

    def reset(self):
        from paddle.jit.sot.opcode_translator.executor.executor_cache import OpcodeExecutorCache
        from paddle.jit.sot.utils import InfoCollector

        OpcodeExecutorCache().clear()
        InfoCollector().clear()

    def translate(self, function):
        translated = paddle.jit.sot.symbolic_translate(function)

        def call():
            # It prints what it collects.
            with contextlib.redirect_stdout(io.StringIO()):
                return translated()

        return call

    def mode(self):
        from paddle.jit.sot.utils import InfoCollector
        from paddle.jit.sot.utils.info_collector import BreakGraphReasonInfo, InfoType, SubGraphInfo

        collected = {**InfoCollector().get_info_dict(InfoType.STEP_INFO), **InfoCollector().get_info_dict(InfoType.E2E_INFO)}
        breaks = {}
        for info in collected.get(BreakGraphReasonInfo.__name__, []):
            reason = str(info.reason)
            breaks[reason] = breaks.get(reason, 0) + 1
        # A graph tells of itself each time that it is called.
        graphs = {info.sir_name for info in collected.get(SubGraphInfo.__name__, [])}
        return Mode(len(graphs), breaks, {})


TRACERS = {"sot": Sot, "paddle": Paddle}
