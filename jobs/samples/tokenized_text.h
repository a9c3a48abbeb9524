// Reads texts that are tokenized as a whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "jobs/samples/text_encoding.h"

namespace crumb::jobs {

/// Reads a file of at most 1 GiB; text_encoding.h says what happens to one that is not UTF-8. Throws Error
/// that names it.
inline std::string read_tokenized_file(const std::string& file, Observer& observer) {
  std::string text = read_text_file(file, std::uint64_t{1} << 30).take();
  check_encoding(text, quote_text(file), observer);
  return text;
}

/// Whether it holds a text or a conversation on each line (training_text.h).
inline bool holds_lines(const std::string& file) {
  return std::filesystem::path(file).extension() == ".jsonl";
}

/// Reads a text in the same way. Throws Error also where the file holds a text on each line.
inline std::string read_tokenized_text(const std::string& file, Observer& observer) {
  if (holds_lines(file))
    throw Error(quote_text(file) + " holds texts or conversations, one on each line; expected a text");
  return read_tokenized_file(file, observer);
}

}  // namespace crumb::jobs
