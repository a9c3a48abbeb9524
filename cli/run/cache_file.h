// The file of --save-cache: keys and values of what was said, and which network made them.
//
//   12 bytes "crumb-cache" and a 0; uint32 version (1); uint32 bytes of the JSON text; that text, NetworkIdentity's fields as
//   an object of strings; then what runtime::Decoding::save() gives. Little-endian.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/language/language_model.h"
#include "runtime/language/decoding.h"

namespace crumb::cli {

/// Everything that decides keys and values beside the tokens, by names for messages, in a fixed order.
struct NetworkIdentity {
  std::vector<std::pair<std::string, std::string>> fields;
};

/// Of the model at `path`, opened with these wishes, and computing by this promise. Weights are known by checksums: of a
/// packed file, those that its header has, so that no weight is read; of a folder, a GGUF file and other checkpoints, of
/// the bytes of config.json and of all tensor files, which are read once, on all threads. Adapters are known by
/// checksums of their numbers. Paths do not count. Throws Error as opening the model does.
NetworkIdentity identity_of(const std::string& path, const jobs::ModelWishes& wishes,
                            runtime::Promise promise, int threads);

std::vector<std::byte> cache_bytes(const NetworkIdentity& identity, const runtime::Decoding& decoding);

/// Gives the decoding what the file holds. Throws Error that names the file where it cannot be read, is damaged or none, was
/// made by another network (what differs is said with both values), or is too long; nothing is changed then.
void load_cache(const std::string& file, const NetworkIdentity& identity, runtime::Decoding& decoding);

}  // namespace crumb::cli
