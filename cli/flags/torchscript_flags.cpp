#include "cli/flags/torchscript_flags.h"

#include "cli/flags/shape_flags.h"

namespace crumb::cli {

CLI::Option* add_several(CLI::App& verb, const char* flag, std::vector<std::string>& values, const char* help,
                         const char* type) {
  return verb.add_option(flag, values, help)
      ->type_name(type)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_torchscript_flags(CLI::App& verb, TorchScriptFlags& flags, const char* group) {
  add_several(verb, "--input", flags.inputs,
              "Of a TorchScript archive: an input to call it with, [NAME=]X.npy (floats of --shape)",
              "[NAME=]FILE")
      ->group(group);
  add_several(verb, "--set-argument", flags.arguments, kArgumentHelp, "NAME=VALUE")->group(group);
}

jobs::TorchScriptExample example_of(const TorchScriptFlags& flags, const std::vector<std::string>& shapes) {
  return {.inputs = flags.inputs,
          .inputs_field = "--input",
          .shapes = read_shapes(shapes),
          .arguments = flags.arguments};
}

}  // namespace crumb::cli
