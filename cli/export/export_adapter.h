// crumb export --to adapter: an adapter that lies in a packed file, by itself, as peft or llama.cpp reads it.
#pragma once

#include <string>
#include <string_view>

namespace crumb::cli {

inline constexpr std::string_view kAdapterForm = "adapter";  ///< of --to

/// Writes a PEFT folder, or a GGUF file where the output is called so, and prints what it is. `name`: of the adapter; empty where
/// there is one. Throws Error, with the names that there are.
void write_export_adapter(const std::string& input, const std::string& output, const std::string& name,
                          bool json);

}  // namespace crumb::cli
