// The file of --save-cache: keys and values of a conversation, and the network that made them.
//
//   12 bytes "crumb-cache" and a 0; uint32 version (1); uint32 length of the JSON text in bytes; the JSON
//   text, NetworkIdentity's fields as an object of strings; then what runtime::Decoding::save() gives.
//   Little-endian.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/language/language_model.h"
#include "runtime/language/decoding.h"

namespace crumb::cli {

/// Everything that decides keys and values in addition to the tokens, by names for messages, in a fixed
/// order.
struct NetworkIdentity {
  std::vector<std::pair<std::string, std::string>> fields;
};

/// Returns the identity of the model at `path`, opened with these options and computed with this promise.
/// Checksums identify weights: those in the header of a packed file, so that no weight is read; for a folder,
/// a GGUF file and other checkpoints those of the bytes of config.json and of all tensor files, which are
/// read once, on all threads. Checksums of their numbers identify adapters. Paths do not count. Throws Error
/// as opening the model does.
NetworkIdentity identity_of(const std::string& path, const jobs::ModelOptions& model_options,
                            runtime::Promise promise, int threads);

std::vector<std::byte> cache_bytes(const NetworkIdentity& identity, const runtime::Decoding& decoding);

/// Loads the file's keys and values into the decoding. Throws Error that names the file where it cannot be
/// read, is damaged or no cache, was made by another network (the message has what differs, with both
/// values), or is too long; the decoding is unchanged then.
void load_cache(const std::string& file, const NetworkIdentity& identity, runtime::Decoding& decoding);

}  // namespace crumb::cli
