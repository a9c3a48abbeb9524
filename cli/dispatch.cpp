#include "cli/dispatch.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/processor.h"
#include "base/text/nearest_name.h"
#include "base/threads/parallel.h"
#include "cli/flags/verb.h"
#include "cli/help/complete.h"
#include "cli/help/help_format.h"
#include "cli/said_command.h"
#include "cli/train/old_spellings.h"

namespace crumb::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFailed: break;
    case ErrorKind::kUsage: return kUsage;
    case ErrorKind::kInterrupted: return kInterrupted;
  }
  return kFailed;
}

int complain(const std::string& message, int code) {
  std::fprintf(stderr, "crumb: %s\n", message.c_str());
  return code;
}

/// Returns the exit code when all went well; fails where output could not be written.
int printed() {
  const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout);
  return written ? 0 : complain("cannot write to standard output", kFailed);
}

/// Returns the first line of an unexpected error. LibTorch appends its own stack, which helps nobody.
std::string text_of_unexpected(std::string_view what) {
  if (what.find("can't allocate memory") != std::string_view::npos) return "out of memory";
  return "an error within crumb, which should not happen; please report it: " +
         printable(what.substr(0, what.find('\n')));
}

using Verbs = std::vector<const CLI::App*>;

Verbs verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Returns the words that call the verb: "train lm".
std::string words_of(const CLI::App& verb) {
  const CLI::App* const parent = verb.get_parent();
  if (!parent) return "";
  const std::string before = words_of(*parent);
  return before + (before.empty() ? "" : " ") + verb.get_name();
}

/// Returns the verb that the arguments begin with, "train lm" or "quantize"; the program where they begin
/// with none.
const CLI::App& find_verb(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* found = &app;
  for (const std::string& argument : arguments) {
    const Verbs below = verbs_of(*found);
    const auto named =
        std::ranges::find(below, argument, [](const CLI::App* verb) { return verb->get_name(); });
    if (named == below.end()) break;
    found = *named;
  }
  return *found;
}

std::vector<std::string> flags_of(const CLI::App& verb) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

bool has_flag(const CLI::App& verb, const std::string& flag) {
  const std::vector<std::string> flags = flags_of(verb);
  return std::ranges::find(flags, flag) != flags.end();
}

/// Returns a hint where a sibling of this verb has the flag: "--epochs is a flag of crumb train task and
/// crumb train graph, ..."; else an empty text.
std::string hint_of_siblings(const CLI::App& verb, const std::string& flag) {
  if (!verb.get_parent() || !verb.get_parent()->get_parent()) return "";
  std::string owners;
  for (const CLI::App* sibling : verbs_of(*verb.get_parent()))
    if (has_flag(*sibling, flag)) owners += (owners.empty() ? "crumb " : ", crumb ") + words_of(*sibling);
  return owners.empty() ? "" : flag + " is a flag of " + owners + ", and not of crumb " + words_of(verb);
}

/// Hides --help in the help of verbs, which lists flags by group; the list of verbs mentions it.
void hide_help_flags(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
    verb->get_help_ptr()->group("");
    hide_help_flags(*verb);
  }
}

/// Returns what CLI11 cannot tell: the nearest valid name of a mistyped verb or flag.
std::string hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return "";
  const CLI::App& verb = find_verb(app, arguments);
  if (&verb == &app && !arguments[0].starts_with('-')) {
    std::vector<std::string> verbs;
    for (const CLI::App* other : verbs_of(app))
      if (is_shown(*other)) verbs.push_back(other->get_name());
    return unknown_name("verb", arguments[0], verbs);
  }
  const std::vector<std::string> flags = flags_of(verb);
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag.starts_with("--") && flag.size() > 2 && std::ranges::find(flags, flag) == flags.end()) {
      if (std::string others = hint_of_siblings(verb, flag); !others.empty()) return others;
      const bool near = edit_distance(flag, nearest_name(flag, flags)) <= (flag.size() - 2) / 2;
      return near ? unknown_name("flag", flag, flags) : "unknown flag " + quote_text(flag);
    }
  }
  return "";
}

}  // namespace

void add_verbs(CLI::App& app) {
  struct Job {
    const char* title;
    std::vector<void (*)(CLI::App&)> verbs;
  };
  const std::vector<Job> jobs = {
      {"Quantize and export", {add_quantize, add_sweep, add_export, add_convert, add_dequantize, add_passes}},
      {"Train and recover", {add_train, add_recover, add_merge}},
      {"Run", {add_run, add_embed, add_generate, add_tokenize, add_detokenize}},
      {"Measure and compare", {add_eval, add_perplexity, add_compare, add_agree, add_bench, add_cost}},
      {"Inspect and check", {add_inspect, add_verify, add_lint}},
      {"Look up", {add_formats, add_recipe, add_doctor, add_completion, add_man}}};
  for (const auto& [title, verbs] : jobs) {
    const std::size_t before = verbs_of(app).size();
    for (const auto& add : verbs) add(app);
    const std::vector<CLI::App*> all = app.get_subcommands([](CLI::App*) { return true; });
    for (std::size_t i = before; i < all.size(); ++i)
      if (is_shown(*all[i])) all[i]->group(title);
  }
  hide_help_flags(app);
}

int run(const std::vector<std::string>& given) {
  const InputWatch watch;  // no verb's output replaces one of its inputs
  remember_command(given);
  std::vector<std::string> arguments = given;
  CLI::App app("Crumb: neural networks whose weights take one to eight bits.", "crumb");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "crumb " CRUMB_VERSION, "Print the version");
  app.require_subcommand(1);
  app.footer("Each verb explains itself: crumb VERB --help. What is there and what is missing: crumb doctor");
  add_verbs(app);
  if (!arguments.empty() && arguments[0] == "complete") {  // no verb: completions of shells call it
    arguments.erase(arguments.begin());
    print_candidates(app, arguments);
    return printed();
  }
  try {
    // A bad $CRUMB_ISA or $CRUMB_THREADS is reported before any work is done.
    may_use(Isa::kPortable);
    default_threads();
    const bool asks_help = !arguments.empty() && arguments[0] == "help";  // crumb help [VERB]
    if (asks_help) arguments.erase(arguments.begin());
    arguments = in_new_spelling(app, std::move(arguments));
    if (asks_help) arguments.emplace_back("--help");
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
    return printed();
  } catch (const CLI::RuntimeError& result) {  // from a verb that has printed its result, with its exit code
    return std::max(printed(), result.get_exit_code());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return printed();
    }
    const std::string better = hint(app, arguments);
    const std::string verb = words_of(find_verb(app, arguments));
    return complain((better.empty() ? std::string(error.what()) : better) + " (see crumb " + verb +
                        (verb.empty() ? "" : " ") + "--help)",
                    kUsage);
  } catch (const Error& error) {
    return complain(error.what(), exit_code(error.kind()));
  } catch (const Interrupted&) {
    return complain("interrupted", kInterrupted);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kFailed);
  } catch (const std::system_error& error) {  // errors of file systems and threads explain themselves
    return complain(error.what(), kFailed);
  } catch (const std::exception& error) {
    return complain(text_of_unexpected(error.what()), kFailed);
  }
}

}  // namespace crumb::cli
