// What our reader makes of many packed files, in one process; test_differential.py compares it with the reader that was
// written from the page.
//
//   crumb_verdicts < PATHS          (one path a line)
//
// prints a line for each file:
//   sound CRC CRC ...     the CRC-32 of every tensor's values (float32, or the bytes of what is not floating), then of
//                         every file's bytes, in the order of the header
//   refused MESSAGE       by what opens files or checks them, and by what hands out values, too
//   broken MESSAGE        the two disagree
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>

#include "base/checksum.h"
#include "base/files/text.h"
#include "formats/crumb_file/crumb_file.h"
#include "quant/packed/packed_check.h"
#include "quant/packed/packed_stream.h"

namespace crumb {
namespace {

uint32_t crc_of_values(const CrumbFile& file, const PackedTensor& tensor,
                       const std::filesystem::path& scratch) {
  uint32_t crc = 0;
  if (is_floating(tensor.dtype)) {
    const std::unique_ptr<ValueStream> stream = open_packed_stream(file, tensor, scratch, 1);
    for (auto x = stream->next(1000); !x.empty(); x = stream->next(1000))
      crc = crc32_of(std::as_bytes(x), crc);
    return crc;
  }
  const Result<BlobBytes> data = file.load(*tensor.part(Part::kData), part_text(tensor, Part::kData));
  if (!data.ok()) throw Error(data.failure().message);
  return crc32_of(data.value().bytes());
}

std::string values_of(const CrumbFile& file, const std::filesystem::path& scratch) {
  std::string line = "sound";
  const auto add = [&](uint32_t crc) {
    char text[16];
    std::snprintf(text, sizeof text, " %08x", crc);
    line += text;
  };
  for (const PackedTensor& tensor : file.header().tensors) add(crc_of_values(file, tensor, scratch));
  for (const PackedFile& entry : file.header().files)
    add(crc32_of(file.load(entry.blob, "file").take().bytes()));
  return line;
}

std::string verdict(const std::filesystem::path& path) {
  const Result<CrumbFile> file = CrumbFile::open(path);
  if (!file.ok()) return "refused " + file.failure().message;
  const Status sound = check_packed_file(file.value());
  try {
    const std::string values = values_of(file.value(), path.parent_path());
    return sound.ok() ? values : "broken: values of what is refused, " + sound.failure().message;
  } catch (const Error& error) {
    return sound.ok() ? std::string("broken: no values of what is sound, ") + error.what()
                      : "refused " + sound.failure().message;
  }
}

}  // namespace
}  // namespace crumb

int main() {
  for (std::string path; std::getline(std::cin, path);) std::cout << crumb::verdict(path) << "\n";
}
