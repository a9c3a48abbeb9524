// Reads the lines of a text, and pairs of texts.
#pragma once

#include <string>
#include <vector>

#include "runtime/sentences/sentence_tokenizer.h"

namespace crumb::jobs {

/// Lines end at \n or \r\n; a last line without an end counts, and an end at the end of the file begins no
/// further line. Throws Error where the file cannot be read, has more than 4 GiB, or has a line that is not
/// UTF-8, whose number it gives.
std::vector<std::string> read_lines(const std::string& path);

/// Lines that hold two texts each, parted by one tab; each text may be empty. Throws Error as read_lines()
/// does, and for a line with no tab or several, whose number it gives.
std::vector<runtime::TextPair> read_pairs(const std::string& path);

/// The same of lines that are read. Throws Error for a line with no tab or several; `path`: theirs.
std::vector<runtime::TextPair> as_pairs(const std::vector<std::string>& lines, const std::string& path);

}  // namespace crumb::jobs
