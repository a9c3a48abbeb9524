// The verbs of the crumb command: one file each, which adds a subcommand and its callback.
//
// A verb throws crumb::Error; run() (cli/dispatch.h) maps its kind to the exit code. Results go to stdout,
// everything else to stderr.
#pragma once

#include <CLI/CLI.hpp>

namespace crumb::cli {

void add_quantize(CLI::App& app);
void add_sweep(CLI::App& app);
void add_inspect(CLI::App& app);
void add_verify(CLI::App& app);
void add_dequantize(CLI::App& app);
void add_compare(CLI::App& app);
void add_formats(CLI::App& app);
void add_recipe(CLI::App& app);
void add_embed(CLI::App& app);
void add_generate(CLI::App& app);
void add_eval(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_detokenize(CLI::App& app);
void add_agree(CLI::App& app);
void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_lint(CLI::App& app);
void add_cost(CLI::App& app);
void add_passes(CLI::App& app);
void add_export(CLI::App& app);
void add_convert(CLI::App& app);
void add_train(CLI::App& app);
void add_recover(CLI::App& app);
void add_merge(CLI::App& app);
void add_doctor(CLI::App& app);
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

/// Adds all verbs, by job, in the order of --help.
void add_verbs(CLI::App& app);

}  // namespace crumb::cli
