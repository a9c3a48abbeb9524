#include "cli/flags/model_flags.h"

#include "cli/flags/flag_group.h"
#include "cli/flags/not_empty.h"

namespace crumb::cli {

void add_adapter_flag(CLI::App& verb, std::vector<std::string>& paths) {
  verb.add_option(
          "--adapter", paths,
          "A low-rank adapter to run beside the matrices: a PEFT folder or a GGUF file; once for each")
      ->type_name("FILE|FOLDER")
      ->group(kInputFlags)
      ->allow_extra_args(false)
      ->check(not_empty);
}

void add_model_flags(CLI::App& verb, jobs::ModelOptions& model_options) {
  verb.add_option(
          "--kv-cache", model_options.kv_cache,
          "Keep keys and values as codes: int8, int4, e4m3fn, ..., one scale for each token and head, or "
          "int4:group=32 for groups of a head; with :rotate behind a Hadamard matrix (as the file says)")
      ->type_name("SPEC")
      ->group(kInputFlags)
      ->check(not_empty);
  add_adapter_flag(verb, model_options.adapters);
  verb.add_flag("--without-adapters", model_options.without_adapters,
                "Leave out the adapters that the model's own file has")
      ->group(kInputFlags);
}

}  // namespace crumb::cli
