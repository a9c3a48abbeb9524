"""Which rooms are mutated, and the tests that are to notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    name: str  # the folder
    tests: str  # the folder of its doctests
    python: tuple  # the Python tests that reach it through the command


OF_FACTS = (
    "tests/graph/facts/test_constant_values.py",
    "tests/graph/facts/test_contradictions.py",
    "tests/graph/facts/test_usual_types.py",
    "tests/cli/test_cli_cost.py",
    "tests/cli/test_cli_crumb_graph.py",
    "tests/cli/test_cli_inspect_graph.py",
    "tests/export/test_export_files.py",
    "tests/export/qcdq/test_qcdq.py",
    "tests/cli/test_cli_verify_accumulator.py",
    "tests/cli/test_cli_lint.py",
    "tests/graph/facts/test_ranges.py",
)

ROOMS = {
    room.name: room
    for room in [
        Room(
            "formats/number",
            "tests/formats/number",
            ("tests/formats/number/test_oracles.py", "tests/cli/test_cli.py", "tests/cli/test_cli_quantize.py"),
        ),
        Room(
            "quant",
            "tests/quant",
            (
                "tests/formats/number/test_oracles.py",
                "tests/cli/test_cli_recipe.py",
                "tests/cli/test_cli_target.py",
                "tests/cli/test_cli_quantize.py",
                "tests/cli/test_cli_dequantize.py",
                "tests/cli/test_cli_memory.py",
                "tests/cli/test_cli_runs.py",
                "tests/cli/test_cli_messages.py",
            ),
        ),
        Room(
            "analysis/accumulator",
            "tests/analysis/accumulator",
            (
                "tests/cli/test_cli_verify_accumulator.py",
                "tests/cli/test_cli_run_accumulator.py",
                "tests/cli/test_cli_accumulator_products.py",
            ),
        ),
        Room("graph/facts", "tests/graph/facts", OF_FACTS),
        Room("graph/qonnx", "tests/graph/qonnx", OF_FACTS),
        Room("ptq", "tests/ptq", ("tests/models/test_low_rank.py",)),
        Room(
            "export",
            "tests/export",
            (
                "tests/export/qcdq/test_qcdq.py",
                "tests/export/lint/test_lint_rules.py",
                "tests/export/lint/test_lint_edges.py",
                "tests/export/qcdq/test_qcdq_networks.py",
                "tests/export/test_export_files.py",
                "tests/export/lint/test_lint_odd_files.py",
                "tests/cli/test_cli_lint.py",
                "tests/cli/test_cli_export_checkpoint.py",
                "tests/cli/test_cli_tokens.py",
                "tests/cli/test_cli_verify_accumulator.py",
                "tests/export/projects/test_hls4ml_projects.py",
                "tests/export/projects/test_finn_files.py",
            ),
        ),
    ]
}
