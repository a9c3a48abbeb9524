// crumb perplexity: how well a language model predicts a text, and how far it is from its float baseline.
#include <cmath>
#include <iostream>
#include <memory>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "cli/flags/fast_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/run/not_finite.h"
#include "jobs/score.h"

namespace crumb::cli {
namespace {

struct PerplexityFlags {
  jobs::ScoreRequest request;
  std::string score = "all";
  bool json = false;
};

Json json_of(const eval::Perplexity& made) {
  Json json = {{"perplexity", json_number(made.perplexity)},
               {"standard_error", json_number(made.standard_error)},
               {"tokens", made.targets},
               {"windows", made.windows},
               {"nll", json_number(made.nll.value)}};
  if (!made.against) return json;
  const eval::Divergence& against = *made.against;
  json["baseline_perplexity"] = json_number(against.baseline_perplexity);
  json["kl_mean"] = json_number(against.kl.value);
  json["kl_mean_standard_error"] = json_number(against.kl.standard_error);
  json["kl_median"] = json_number(against.kl_median);
  json["kl_p90"] = json_number(against.kl_p90);
  json["kl_p99"] = json_number(against.kl_p99);
  json["kl_p999"] = json_number(against.kl_p999);
  json["kl_largest"] = json_number(against.kl_largest);
  json["same_top1"] = json_number(against.same_top1.value);
  json["same_top1_standard_error"] = json_number(against.same_top1.standard_error);
  json["nll_added"] = json_number(against.nll_added.value);
  json["nll_added_standard_error"] = json_number(against.nll_added.standard_error);
  return json;
}

void print(const eval::Perplexity& made, const PerplexityFlags& flags) {
  std::cout << "perplexity     " << fixed(made.perplexity, 4) << " +/- " << fixed(made.standard_error, 4)
            << "  (" << count_text(made.targets, "token")
            << (flags.score == "half" ? ", the second half" : "") << " of "
            << count_text(made.windows, "window") << " of " << flags.request.context << ")\n";
  if (!made.against) return;
  constexpr double kOf95Percent = 1.96;
  const eval::Divergence& against = *made.against;
  const double added = against.nll_added.value, reach = kOf95Percent * against.nll_added.standard_error;
  std::cout << "baseline       " << fixed(against.baseline_perplexity, 4)
            << "; its log-likelihood a token is " << fixed(std::abs(added), 4)
            << (added < 0 ? " lower" : " higher") << " (95 %: " << fixed(added - reach, 4) << " to "
            << fixed(added + reach, 4) << ")\n"
            << "KL divergence  " << fixed(against.kl.value, 5) << " +/- "
            << fixed(against.kl.standard_error, 5) << " nats; median " << fixed(against.kl_median, 5)
            << ", 90 % " << fixed(against.kl_p90, 5) << ", 99 % " << fixed(against.kl_p99, 5) << ", 99.9 % "
            << fixed(against.kl_p999, 5) << ", largest " << fixed(against.kl_largest, 5) << "\n"
            << "first choice   the same for " << fixed(100 * against.same_top1.value, 2) << " % +/- "
            << fixed(100 * against.same_top1.standard_error, 2) << "\n";
}

Json json_of(const jobs::ModelScore& score) {
  Json json = json_of(score.made);
  json["not_finite"] = not_finite_json(score.not_finite);
  return json;
}

void perplexity_verb(PerplexityFlags flags) {
  flags.request.score = flags.score == "half" ? eval::Score::kHalf : eval::Score::kAll;
  const std::vector<jobs::ModelScore> models = jobs::score(flags.request, terminal()).models;
  if (flags.json && models.size() == 1) return print_json(json_of(models[0]));
  Json all = Json::array();
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (flags.json) {
      Json one = {{"model", models[i].model}};
      one.update(json_of(models[i]));
      all.push_back(std::move(one));
      continue;
    }
    if (models.size() > 1) std::cout << (i > 0 ? "\n" : "") << models[i].model << "\n";
    print(models[i].made, flags);
  }
  if (flags.json) print_json({{"models", std::move(all)}});
}

}  // namespace

void add_perplexity(CLI::App& app) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::App* verb = app.add_subcommand("perplexity", "Measure how well a language model predicts a text");
  verb->add_option("model", flags->request.models,
                   "A Hugging Face folder, a GGUF file or a packed file; several are measured side by side")
      ->type_name("MODEL")
      ->required();
  verb->add_option("--text", flags->request.text, "The text: a file in UTF-8")
      ->type_name("FILE")
      ->group(kInputFlags)
      ->required();
  verb->add_option("--baseline", flags->request.baseline,
                   "Another model of the same tokens, the float one: print how far the model is from it")
      ->type_name("MODEL")
      ->group(kInputFlags);
  verb->add_option("--context", flags->request.context, "Tokens of a window (1024)")
      ->type_name("TOKENS")
      ->group("What is counted")
      ->check(at_least(1));
  verb->add_option("--stride", flags->request.stride,
                   "Tokens between the beginnings of windows (as many as a window has)")
      ->type_name("TOKENS")
      ->group("What is counted")
      ->check(at_least(1));
  verb->add_option(
          "--score", flags->score,
          "Which tokens of a window count: all, or half: those of its second half, as llama-perplexity "
          "counts (all)")
      ->group("What is counted")
      ->check(CLI::IsMember({"all", "half"}));
  verb->add_option("--tokens", flags->request.tokens, "Tokens of the text, from its beginning (all)")
      ->type_name("TOKENS")
      ->group("What is counted")
      ->check(at_least(1));
  add_model_flags(*verb, flags->request.model_options);
  add_threads_flag(*verb, flags->request.threads,
                   "Threads, which never change the result (those the machine has)");
  add_fast_flag(*verb, flags->request.fast);
  add_strict_flag(*verb, flags->request.strict);
  verb->add_flag("--json", flags->json, "Print as JSON")->group(kOutputFlags);
  verb->footer(
      "Tokens behind the last whole window are left out. Where the tokenizer puts a token in front of every "
      "text, each\n"
      "window begins with it.\n\nExample:\n"
      "  crumb perplexity model4.crumb --text valid.txt --baseline model.gguf --tokens 16384");
  verb->callback([flags] { perplexity_verb(*flags); });
}

}  // namespace crumb::cli
