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
#include "cli/verb.h"

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

/// The exit code when all went well: what was printed must have got out.
int printed() {
  const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout);
  return written ? 0 : complain("cannot write to standard output", kFailed);
}

/// What nobody foresaw: the first line of it. LibTorch puts its own stack behind that, which helps nobody.
std::string text_of_unexpected(std::string_view what) {
  if (what.find("can't allocate memory") != std::string_view::npos) return "out of memory";
  return "an error within crumb, which should not happen; please report it: " +
         printable(what.substr(0, what.find('\n')));
}

/// The verb of that name; null where there is none.
const CLI::App* find_verb(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!arguments.empty() && verb->get_name() == arguments[0]) return verb;
  }
  return nullptr;
}

/// What CLI11 cannot tell: the nearest valid name of a mistyped verb or flag.
std::string hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return "";
  const CLI::App* verb = find_verb(app, arguments);
  if (!verb && !arguments[0].starts_with('-')) {
    std::vector<std::string> verbs;
    for (const CLI::App* other : app.get_subcommands([](const CLI::App*) { return true; })) {
      verbs.push_back(other->get_name());
    }
    return unknown_name("verb", arguments[0], verbs);
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : (verb ? *verb : app).get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag.starts_with("--") && flag.size() > 2 && std::ranges::find(flags, flag) == flags.end()) {
      const bool near = edit_distance(flag, nearest_name(flag, flags)) <= (flag.size() - 2) / 2;
      return near ? unknown_name("flag", flag, flags) : "unknown flag " + quote_text(flag);
    }
  }
  return "";
}

}  // namespace

void add_verbs(CLI::App& app) {
  add_quantize(app);
  add_sweep(app);
  add_inspect(app);
  add_verify(app);
  add_dequantize(app);
  add_compare(app);
  add_formats(app);
  add_recipe(app);
  add_embed(app);
  add_generate(app);
  add_perplexity(app);
  add_tokenize(app);
  add_detokenize(app);
  add_agree(app);
  add_run(app);
  add_bench(app);
  add_lint(app);
  add_cost(app);
  add_passes(app);
  add_export(app);
  add_convert(app);
  add_train(app);
  add_recover(app);
  add_merge(app);
  add_doctor(app);
}

int run(const std::vector<std::string>& arguments) {
  const InputWatch watch;  // no verb's outputs replace what it reads
  CLI::App app("Crumb: neural networks whose weights take one to eight bits.", "crumb");
  app.set_version_flag("--version", "crumb " CRUMB_VERSION, "Print the version");
  app.require_subcommand(1);
  app.footer("Each verb explains itself: crumb VERB --help");
  add_verbs(app);
  try {
    // A $CRUMB_ISA or $CRUMB_THREADS that means nothing is said before anything is done.
    may_use(Isa::kPortable);
    default_threads();
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    if (!arguments.empty() && arguments[0] == "help") {  // crumb help [VERB]
      reversed.pop_back();
      reversed.insert(reversed.begin(), "--help");
    }
    app.parse(std::move(reversed));
    return printed();
  } catch (
      const CLI::RuntimeError& result) {  // of a verb that has printed its result, and says what it means
    return std::max(printed(), result.get_exit_code());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return printed();
    }
    const std::string better = hint(app, arguments);
    const std::string verb = find_verb(app, arguments) ? arguments[0] + " " : "";
    return complain((better.empty() ? std::string(error.what()) : better) + " (see crumb " + verb + "--help)",
                    kUsage);
  } catch (const Error& error) {
    return complain(error.what(), exit_code(error.kind()));
  } catch (const Interrupted&) {
    return complain("interrupted", kInterrupted);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kFailed);
  } catch (const std::system_error& error) {  // file systems and threads say what is wrong
    return complain(error.what(), kFailed);
  } catch (const std::exception& error) {
    return complain(text_of_unexpected(error.what()), kFailed);
  }
}

}  // namespace crumb::cli
