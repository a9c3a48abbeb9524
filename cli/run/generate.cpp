// crumb generate: a language model's answer to a prompt.
#include "runtime/language/generate.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>

#include "base/files/interrupt.h"
#include "base/files/output_file.h"
#include "base/files/output_place.h"
#include "base/files/process_memory.h"
#include "base/files/text.h"
#include "cli/flags/fast_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/run/cache_file.h"
#include "cli/run/conversation.h"
#include "cli/run/model_inputs.h"
#include "cli/run/not_finite.h"
#include "jobs/language/language_model.h"
#include "jobs/samples/text_encoding.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

using runtime::Answer;
using runtime::LanguageModel;
using text::TokenId;

constexpr std::uint64_t kMostPromptBytes = std::uint64_t{64} << 20;

struct GenerateFlags {
  std::string model, prompt, prompt_file, system, save_cache, load_cache;
  jobs::ModelOptions model_options;
  runtime::GenerateOptions options;
  std::size_t context = 0;
  int threads = 0;
  bool chat = false, fast = false, json = false, strict = false;
};

std::string prompt_of(const GenerateFlags& flags) {
  if (flags.prompt_file.empty()) return flags.prompt;
  std::string text = read_text_file(flags.prompt_file, kMostPromptBytes).take();
  jobs::check_encoding(text, quote_text(flags.prompt_file), terminal());
  return text;
}

double rate(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

Json json_of(const Answer& answer, const runtime::Decoding& decoding,
             const std::optional<graph::NotFinite>& not_finite) {
  // The prompt's logits choose the answer's first token; each further token takes one run.
  const std::size_t runs = answer.ids.empty() ? 0 : answer.ids.size() - 1;
  return {{"text", answer.text},
          {"ids", answer.ids},
          {"prompt_tokens", answer.prompt_tokens},
          {"prompt_tokens_per_second", json_number(rate(answer.prompt_tokens, answer.prompt_seconds))},
          {"tokens_per_second", json_number(rate(runs, answer.answer_seconds))},
          {"cache_bytes", decoding.bytes()},
          {"peak_rss_bytes", peak_resident_bytes()},
          {"not_finite", not_finite_json(not_finite)},
          {"stopped_by", runtime::name_of(answer.stopped_by)}};
}

/// The file of --save-cache, opened before the model runs, so that a failure to write is reported before the
/// work.
class SavedCache {
 public:
  /// Keys and values, and the network that made them.
  struct Made {
    const runtime::Decoding* decoding;
    const NetworkIdentity* identity;
  };

  /// "": nothing is saved.
  explicit SavedCache(const std::string& path) {
    if (!path.empty()) file_.emplace(path);
  }

  /// Does `work` and then saves what there is, also where `work` ends with an error, which is thrown on. In
  /// that case an older file stays if nothing was added. `made` gives what is saved.
  void save_behind(const std::function<void()>& work, const std::function<Made()>& made) {
    const std::vector<TokenId> before = made().decoding->ids();
    try {
      work();
    } catch (...) {
      const std::vector<TokenId>& there = made().decoding->ids();
      if (std::ranges::mismatch(there, before).in1 != there.end()) write(made());
      throw;
    }
    write(made());
  }

 private:
  void write(const Made& made) {
    if (!file_) return;
    if (interrupt_requested()) file_->outlast_interrupts();
    file_->append(cache_bytes(*made.identity, *made.decoding));
    file_->commit();
  }

  std::optional<OutputFile> file_;
};

void check_flags(const GenerateFlags& flags) {
  const bool has_prompt = !flags.prompt.empty() || !flags.prompt_file.empty();
  if (!flags.prompt.empty() && !flags.prompt_file.empty())
    throw usage_error("give either --prompt TEXT or --prompt-file FILE");
  if (!has_prompt && !flags.chat)
    throw usage_error("give --prompt TEXT or --prompt-file FILE, or --chat for a conversation");
  if (!has_prompt && flags.json)
    throw usage_error("--json prints one answer: give --prompt or --prompt-file");
  if (!flags.system.empty() && !flags.chat) throw usage_error("--system is for --chat");
  if (flags.save_cache.empty()) return;
  std::vector<std::filesystem::path> inputs = model_inputs(flags.model);
  if (!flags.prompt_file.empty()) inputs.emplace_back(flags.prompt_file);
  refuse_overwriting_inputs(inputs, flags.save_cache);  // the cache that was loaded may be overwritten
  claim_output(flags.save_cache);
}

Answer answer_once(const LanguageModel& model, runtime::Decoding& decoding, const GenerateFlags& flags) {
  const std::string prompt = prompt_of(flags);
  const auto show = [&](std::string_view text) {
    if (!flags.json) std::cout << text << std::flush;
  };
  if (flags.chat) return Conversation(model, decoding, flags.system).say(prompt, flags.options, show);
  return runtime::generate(model, decoding, model.tokenizer().encode(prompt), flags.options, show);
}

/// Returns the identity of the cache's network; reads nothing where no cache is kept.
NetworkIdentity identity_for(const GenerateFlags& flags, const jobs::ModelOptions& model_options) {
  if (flags.save_cache.empty() && flags.load_cache.empty()) return {};
  return identity_of(flags.model, model_options, promise_of(flags.fast), flags.threads);
}

/// Takes one turn for each line of standard input. Opens the network without adapters at its first use.
void converse(const LanguageModel& model, runtime::Decoding& decoding, const runtime::DecodingOptions& how,
              const GenerateFlags& flags, const NetworkIdentity& identity, SavedCache& saved) {
  std::optional<LanguageModel> bare;
  std::optional<runtime::Decoding> bare_decoding;
  NetworkIdentity bare_identity;
  Conversation conversation(model, decoding, flags.system);
  const auto switch_adapters = [&](bool has_adapters) {
    if (has_adapters) return conversation.speak_by(model, decoding);
    if (!bare) {
      const jobs::ModelOptions model_options{.kv_cache = flags.model_options.kv_cache,
                                             .without_adapters = true};
      bare.emplace(jobs::open_language_model(flags.model, model_options, terminal()));
      bare_identity = identity_for(flags, model_options);
      bare_decoding.emplace(*bare, how);
    }
    conversation.speak_by(*bare, *bare_decoding);
  };
  saved.save_behind([&] { conversation.run(flags.options, switch_adapters); },
                    [&] {
                      const runtime::Decoding* const speaks = &conversation.decoding();
                      return SavedCache::Made{speaks, speaks == &decoding ? &identity : &bare_identity};
                    });
}

void answer_and_print(const LanguageModel& model, runtime::Decoding& decoding, const GenerateFlags& flags,
                      const graph::NotFiniteWatch& watch) {
  const Answer answer = answer_once(model, decoding, flags);
  const auto not_finite = watch.first(&model.model().graph());
  flags.json ? print_json(json_of(answer, decoding, not_finite)) : void(std::cout << "\n");
  Notes notes;
  note_not_finite(not_finite, notes);
  if (answer.stopped_by == runtime::StoppedBy::kInterrupt) throw Interrupted();
}

void generate_verb(const GenerateFlags& flags) {
  check_flags(flags);
  SavedCache saved(flags.save_cache);
  const LanguageModel model = jobs::open_language_model(flags.model, flags.model_options, terminal());
  const runtime::DecodingOptions how{
      .threads = flags.threads, .promise = promise_of(flags.fast), .context = flags.context};
  runtime::Decoding decoding(model, how);
  const NetworkIdentity identity = identity_for(flags, flags.model_options);
  if (!flags.load_cache.empty()) load_cache(flags.load_cache, identity, decoding);
  graph::NotFiniteWatch watch(flags.strict);
  const graph::NotFiniteScope scope(&watch);
  if (flags.prompt.empty() && flags.prompt_file.empty()) {
    converse(model, decoding, how, flags, identity, saved);
    Notes notes;
    return note_not_finite(watch.first(&model.model().graph()), notes);
  }
  saved.save_behind([&] { answer_and_print(model, decoding, flags, watch); },
                    [&] {
                      return SavedCache::Made{&decoding, &identity};
                    });
}

void add_sampling_flags(CLI::App& verb, runtime::Sampling& sampling) {
  CLI::Option* const draws =
      verb.add_option("--temperature", sampling.temperature,
                      "Divides logits before one is drawn; 0 takes the most probable token (0)")
          ->type_name("FACTOR")
          ->group("The answer");
  verb.add_option("--top-k", sampling.top_k, "Draw among so many of the most probable tokens; 0: all (0)")
      ->type_name("TOKENS")
      ->group("The answer")
      ->check(at_least(0))
      ->needs(draws);
  verb.add_option("--top-p", sampling.top_p,
                  "Draw among the most probable tokens that have this probability together (1)")
      ->type_name("SHARE")
      ->group("The answer")
      ->needs(draws);
  verb.add_option(
          "--min-p", sampling.min_p,
          "Draw among tokens that have at least this share of the most probable one's probability (0)")
      ->type_name("SHARE")
      ->group("The answer")
      ->needs(draws);
  verb.add_option("--repeat-penalty", sampling.repeat_penalty,
                  "Divides the logits of tokens that are there already (1)")
      ->type_name("FACTOR")
      ->group("The answer");
  verb.add_option("--seed", sampling.seed, "Of what is drawn (0)")
      ->type_name("NUMBER")
      ->group("The answer")
      ->check(at_least(0))
      ->needs(draws);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* verb = app.add_subcommand("generate", "Let a language model go on with a text");
  verb->add_option("model", flags->model, "A Hugging Face folder, a GGUF file or a packed file")
      ->type_name("MODEL")
      ->required();
  verb->add_option("--prompt", flags->prompt, "The text to go on with")
      ->type_name("TEXT")
      ->group(kInputFlags);
  verb->add_option("--prompt-file", flags->prompt_file, "A file with that text, in UTF-8")
      ->type_name("FILE")
      ->group(kInputFlags);
  verb->add_flag("--chat", flags->chat,
                 "The text is what a person says, as the model's chat template has it; without a text, a "
                 "conversation: a turn for each line of standard input")
      ->group(kInputFlags);
  verb->add_option("--system", flags->system, "With --chat: what the model is told before")
      ->type_name("TEXT")
      ->group(kInputFlags);
  verb->add_option("--tokens", flags->options.tokens, "Tokens of the answer, at most (128)")
      ->type_name("TOKENS")
      ->group("The answer")
      ->check(at_least(0));
  add_sampling_flags(*verb, flags->options.sampling);
  verb->add_option("--stop", flags->options.stops,
                   "A text that ends the answer, and is no part of it; once for each")
      ->type_name("TEXT")
      ->group("The answer");
  verb->add_option("--context", flags->context,
                   "Tokens of prompt and answer, at most (as many as the model has positions)")
      ->type_name("TOKENS")
      ->group("The answer")
      ->check(at_least(1));
  verb->add_flag("--shift", flags->options.shift,
                 "A full context loses its oldest half; otherwise it is an error")
      ->group("The answer");
  verb->add_option("--save-cache", flags->save_cache,
                   "Write keys and values of all that was said, for --load-cache")
      ->type_name("FILE")
      ->group(kOutputFlags);
  verb->add_option(
          "--load-cache", flags->load_cache,
          "What a run of the same model saved: what its text and this one begin with alike is not run again")
      ->type_name("FILE")
      ->group(kInputFlags);
  add_model_flags(*verb, flags->model_options);
  add_threads_flag(*verb, flags->threads, "Threads, which never change the answer (those the machine has)");
  add_fast_flag(*verb, flags->fast);
  add_strict_flag(*verb, flags->strict);
  verb->add_flag("--json", flags->json, "Print text, ids, speeds and memory as JSON, at the end")
      ->group(kOutputFlags);
  verb->footer(
      "Ctrl-C ends an answer; a conversation goes on then. In one, the lines '/adapters off' and '/adapters "
      "on' say by which "
      "network the next answers are.\n\nExamples:\n"
      "  crumb generate model4.crumb --prompt \"The capital of France is\" --tokens 20\n"
      "  crumb generate model4.crumb --chat --prompt \"What is the capital of France?\"");
  verb->callback([flags] { generate_verb(*flags); });
}

}  // namespace crumb::cli
