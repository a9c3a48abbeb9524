// Pickles and archives assembled by hand, as torch.save writes them.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/torch_pickle/torch_pickle.h"

namespace crumb::testing {

inline std::string little(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255u);
  return text;
}

// Parts of a pickle: each is the opcodes that push one value.
inline std::string text(std::string_view s) { return "X" + little(s.size(), 4) + std::string(s); }
inline std::string number(std::int64_t n) {
  return std::string("\x8a\x08", 2) + little(static_cast<std::uint64_t>(n), 8);
}
inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
template <class... Parts>
std::string tuple(const Parts&... parts) {
  return "(" + (std::string() + ... + parts) + "t";
}
template <class... Parts>
std::string list(const Parts&... parts) {
  return "](" + (std::string() + ... + parts) + "e";
}
/// Keys and values in turn.
template <class... Parts>
std::string dict(const Parts&... parts) {
  return "}(" + (std::string() + ... + parts) + "u";
}
inline std::string call(const std::string& function, const std::string& arguments) {
  return function + arguments + "R";
}
inline std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

inline std::string numbers(const std::vector<std::int64_t>& values) {
  std::string all = "(";
  for (const std::int64_t value : values) all += number(value);
  return all + "t";
}
inline std::string storage(std::string_view type, std::string_view key, std::int64_t elements) {
  return tuple(text("storage"), global(type == "UntypedStorage" ? "torch.storage" : "torch", type), text(key),
               text("cpu"), number(elements)) +
         "Q";
}
inline std::string hooks() { return call(global("collections", "OrderedDict"), ")"); }
inline std::string tensor(const std::string& storage, std::int64_t first,
                          const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              tuple(storage, number(first), numbers(shape), numbers(strides), "\x89", hooks()));
}
inline std::string tensor_v3(const std::string& storage, std::string_view dtype,
                             const std::vector<std::int64_t>& shape,
                             const std::vector<std::int64_t>& strides) {
  return call(
      global("torch._utils", "_rebuild_tensor_v3"),
      tuple(storage, number(0), numbers(shape), numbers(strides), "\x89", hooks(), global("torch", dtype)));
}
/// A float32 tensor of the storage '0'.
inline std::string floats(std::int64_t count) {
  return tensor(storage("FloatStorage", "0", count), 0, {count}, {1});
}

using Members = std::vector<std::pair<std::string, std::string>>;

/// A zip archive whose members are stored.
inline std::string zip_of(const Members& members) {
  std::string file, directory;
  for (const auto& [name, bytes] : members) {
    const auto crc =
        ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    const std::string shared = little(20, 2) + little(0, 2) + little(0, 2) + little(0, 4) + little(crc, 4) +
                               little(bytes.size(), 4) + little(bytes.size(), 4) + little(name.size(), 2) +
                               little(0, 2);
    directory += "PK\x01\x02" + little(20, 2) + shared + little(0, 2) + little(0, 2) + little(0, 2) +
                 little(0, 4) + little(file.size(), 4) + name;
    file += "PK\x03\x04" + shared + name + bytes;
  }
  const std::string count = little(members.size(), 2);
  return file + directory + std::string("PK\x05\x06") + little(0, 4) + count + count +
         little(directory.size(), 4) + little(file.size(), 4) + little(0, 2);
}

/// An archive of this pickled value and storages 0, 1, ...
inline std::string archive(const std::string& value, const std::vector<std::string>& storages,
                           const Members& more = {{"m/byteorder", "little"}, {"m/version", "3\n"}}) {
  Members members = {{"m/data.pkl", pickle(value)}};
  for (std::size_t i = 0; i < storages.size(); ++i)
    members.emplace_back("m/data/" + std::to_string(i), storages[i]);
  members.insert(members.end(), more.begin(), more.end());
  return zip_of(members);
}

/// The persistent id of a storage of a stream. `view`: None, or a tuple of a key, first element and count.
inline std::string stream_storage(std::string_view type, std::string_view key, std::int64_t elements,
                                  const std::string& view = "N") {
  return tuple(text("storage"), global("torch", type), text(key), text("cpu"), number(elements), view) + "Q";
}

struct StreamStorage {
  std::string key;
  std::int64_t count = 0;
  std::string bytes;
};

/// The pickles before the saved object.
inline std::string stream_start(std::int64_t version = 1001,
                                const std::string& system = dict(text("little_endian"), "\x88")) {
  return std::string("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.") + pickle(number(version)) +
         pickle(system);
}

/// What torch.save wrote before version 1.6.
inline std::string stream(const std::string& value, const std::vector<StreamStorage>& storages) {
  std::string keys = "](", bytes;
  for (const StreamStorage& storage : storages) {
    keys += text(storage.key);
    bytes += little(static_cast<std::uint64_t>(storage.count), 8) + storage.bytes;
  }
  return stream_start() + pickle(value) + pickle(keys + "e") + bytes;
}

inline Result<TensorListing> list_file(const std::string& file, const std::string& key = {}) {
  return list_torch_checkpoint(std::as_bytes(std::span(file)), {.key = key});
}

inline std::string why(const std::string& file, const std::string& key = {}) {
  const Result<TensorListing> listing = list_file(file, key);
  return listing.ok() ? "no failure" : listing.failure().message;
}

}  // namespace crumb::testing
