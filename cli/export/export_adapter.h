// crumb export --to adapter: writes an adapter from a packed file by itself, as peft or llama.cpp reads it.
#pragma once

#include <string>
#include <string_view>

namespace crumb::cli {

inline constexpr std::string_view kAdapterForm = "adapter";  ///< the form's name after --to

/// Writes a PEFT folder, or a GGUF file where the output's name says so, and prints what it is. `name`: the
/// adapter's; may be empty where there is only one. Throws Error, with the names that there are.
void write_export_adapter(const std::string& input, const std::string& output, const std::string& name,
                          bool json);

}  // namespace crumb::cli
