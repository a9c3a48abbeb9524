// A model in several GGUF files, as llama-gguf-split writes it.
//
// Each file says split.no (its number, from 0 on), split.count and split.tensors.count (of the whole model),
// and is called NAME-00001-of-0000N.gguf, NAME-00002-of-0000N.gguf and so on. The first has the other
// metadata; tensors lie in any of them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf/gguf.h"

namespace crumb {

struct GgufPart {
  std::string name;  ///< of the file, in the folder of the others
  std::span<const std::byte> bytes;
};

/// The name of another part's file than `name`, NAME-00001-of-0000N.gguf, from 1 on; nothing where `name` is
/// not called so, or says another number of files than `count`.
std::optional<std::string> gguf_part_name(const std::string& name, std::uint64_t number, std::uint64_t count);

/// Whether files are called as parts of one model, some of which may be missing. Precondition: there are any.
bool are_gguf_parts(std::span<const std::string> names);

/// The parts of the model that a file belongs to, in their order: itself, where it is a model in one file.
/// `open` gives the bytes of another file of its folder, which live as long as the result is used. A Failure
/// names the file that is missing, or says what contradicts.
Result<std::vector<GgufPart>> find_gguf_parts(
    const GgufPart& file, const std::function<Result<std::span<const std::byte>>(const std::string&)>& open);

/// The header of the whole: the first part's metadata, and the tensors of all. A Failure names the part whose
/// header is damaged, or which does not have its place among the others.
Result<GgufHeader> parse_gguf_parts(std::span<const GgufPart> parts);

}  // namespace crumb
