// crumb export --to gguf: writes a decoder as llama.cpp reads it.
#pragma once

#include <string>
#include <string_view>

namespace crumb::cli {

inline constexpr std::string_view kGgufForm = "gguf";  ///< the form's name after --to

/// Writes the file and prints what it is. Throws Error.
void write_export_gguf(const std::string& input, const std::string& output, bool json);

/// Whether a conversion is between GGUF and packed files, which keeps codes: the ending of the output, or of
/// both, says so.
bool is_between_gguf_and_packed(const std::string& input, const std::string& output);

/// Converts a packed file to GGUF, or the other way round. Throws Error.
void convert_gguf(const std::string& input, const std::string& output, bool json);

}  // namespace crumb::cli
