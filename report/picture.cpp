#include "report/picture.h"

#include <zlib.h>

#include "base/checksum.h"
#include "base/error.h"

namespace crumb::report {
namespace {

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 255U);
  return bytes;
}

std::string chunk(const std::string& type, const std::string& data) {
  return big_endian(static_cast<std::uint32_t>(data.size())) + type + data +
         big_endian(crc32_of(type + data));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                bytes.size(), Z_BEST_COMPRESSION) != Z_OK)
    throw Error("a picture could not be compressed");
  out.resize(size);
  return out;
}

}  // namespace

std::string png_of(const Picture& picture) {
  const std::size_t row = picture.width * picture.channels;
  std::string lines;
  for (std::size_t y = 0; y < picture.height; ++y) {
    lines += '\0';  // no filter
    lines.append(reinterpret_cast<const char*>(picture.pixels.data()) + y * row, row);
  }
  constexpr char kGray = 0, kRgb = 2, kBitDepth = 8;
  std::string head = big_endian(static_cast<std::uint32_t>(picture.width)) +
                     big_endian(static_cast<std::uint32_t>(picture.height));
  head += kBitDepth;
  head += picture.channels == 3 ? kRgb : kGray;
  head += std::string(3, '\0');  // deflate, its filters, no interlacing
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", head) + chunk("IDAT", deflated(lines)) + chunk("IEND", "");
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= bytes.size() - i ? kDigits[three >> (18 - 6 * j) & 63U] : '=';
  }
  return text;
}

}  // namespace crumb::report
