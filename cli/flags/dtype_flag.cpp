#include "cli/flags/dtype_flag.h"

#include "cli/flags/flag_group.h"

namespace crumb::cli {

CLI::Option* add_dtype_flag(CLI::App& verb, std::string& dtype) {
  return verb
      .add_option(
          "--dtype", dtype,
          "Of floats: round them to f32, f16 or bf16, and say what that costs (else as they come, without "
          "loss)")
      ->group(kOutputFlags)
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
}

}  // namespace crumb::cli
