// crumb embed: computes vectors of sentences.
#include <filesystem>
#include <iostream>
#include <variant>

#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "cli/flags/fast_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/output.h"
#include "cli/run/model_inputs.h"
#include "cli/run/not_finite.h"
#include "formats/npy/npy.h"
#include "jobs/language/line_encoder.h"
#include "jobs/samples/read_lines.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "runtime/sentences/sentence_encoder.h"

namespace crumb::cli {
namespace {

struct EmbedFlags {
  std::string model, text, output;
  runtime::PromptChoice prompt;
  int threads = 0;
  bool pairs = false, fast = false, strict = false;
};

using Lines = std::variant<std::vector<std::string>, std::vector<runtime::TextPair>>;

Lines read(const EmbedFlags& options) {
  if (options.pairs) return jobs::read_pairs(options.text);
  return jobs::read_lines(options.text);
}

std::vector<float> embedded(const runtime::SentenceEncoder& encoder, const Lines& lines,
                            const EmbedFlags& options, const runtime::SentenceEncoder::Progress& progress) {
  const runtime::Promise promise = promise_of(options.fast);
  if (const auto* const pairs = std::get_if<std::vector<runtime::TextPair>>(&lines))
    return encoder.embed_pairs(*pairs, options.threads, progress, promise);
  return encoder.embed(std::get<std::vector<std::string>>(lines), options.threads, progress, promise);
}

void embed_verb(const EmbedFlags& options) {
  std::vector<std::filesystem::path> inputs = model_inputs(options.model);
  inputs.emplace_back(options.text);
  refuse_overwriting_inputs(inputs, options.output);
  claim_output(options.output);
  const Lines lines = read(options);
  const std::size_t count = std::visit([](const auto& read) { return read.size(); }, lines);
  const auto encoder = jobs::open_line_encoder(options.model, options.prompt);
  graph::NotFiniteWatch watch(options.strict);
  const graph::NotFiniteScope scope(&watch);
  std::vector<float> vectors;
  const double start = now_seconds();
  {
    Progress progress("embedding", "lines", count, 0);
    const auto done_so_far = [&](size_t done, size_t) {
      check_interrupt();
      progress.update(done, 0);
    };
    vectors = embedded(encoder, lines, options, done_so_far);
  }
  const double seconds = now_seconds() - start;
  Notes notes;
  note_not_finite(watch.first(&encoder.graph()), notes);
  write_npy(options.output, vectors, count, encoder.width());
  std::cout << options.output << ": float32 [" << count << ", " << encoder.width() << "], "
            << fixed(seconds, 2) << " s\n";
}

}  // namespace

void add_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedFlags>();
  CLI::App* verb = app.add_subcommand("embed", "Embed the lines of a text file with a sentence encoder");
  verb->add_option("model", options->model, "A Hugging Face folder or a packed file")
      ->type_name("MODEL")
      ->required();
  verb->add_option("--text", options->text, "The text: UTF-8, one sentence a line")
      ->type_name("FILE")
      ->group(kInputFlags)
      ->required();
  verb->add_flag("--pairs", options->pairs,
                 "Each line holds two texts with a tab between them, which the model sees as one row")
      ->group(kInputFlags);
  CLI::Option* const named =
      verb->add_option("--prompt-name", options->prompt.name,
                       "The model's prompt of this name is put before every line (the model's default)")
          ->type_name("NAME")
          ->group(kInputFlags);
  verb->add_option("--prompt", options->prompt.text,
                   "This text is put before every line; \"\" for none (the model's default prompt)")
      ->type_name("TEXT")
      ->group(kInputFlags)
      ->excludes(named);
  verb->add_option("-o,--output", options->output, "The .npy file to write: float32 [lines, width]")
      ->type_name("FILE")
      ->group(kOutputFlags)
      ->required();
  add_threads_flag(*verb, options->threads, "Threads, which never change the result (those the machine has)");
  add_fast_flag(*verb, options->fast);
  add_strict_flag(*verb, options->strict);
  verb->footer("Example:\n  crumb embed minilm.crumb --text examples/sentences.txt -o vectors.npy");
  verb->callback([options] { embed_verb(*options); });
}

}  // namespace crumb::cli
