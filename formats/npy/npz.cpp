#include "formats/npy/npz.h"

#include <algorithm>
#include <utility>

#include "base/files/inflate.h"
#include "base/files/output_file.h"
#include "base/files/text.h"
#include "formats/zip/zip.h"
#include "formats/zip/zip_writer.h"

namespace crumb {
namespace {

constexpr std::string_view kSuffix = ".npy";

/// Where the arrays of numpy lie column by column and that is another order than row by row, its strides;
/// empty otherwise.
std::vector<std::uint64_t> column_major_strides(std::span<const std::uint64_t> shape) {
  std::size_t long_axes = 0;
  for (const std::uint64_t size : shape) {
    if (size == 0) return {};
    if (size > 1) ++long_axes;
  }
  if (long_axes < 2) return {};
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) strides[axis] = strides[axis - 1] * shape[axis - 1];
  return strides;
}

StoredTensor stored_tensor(std::string_view name, NpyHeader header) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = header.dtype;
  tensor.place.big_endian = header.big_endian;
  tensor.place.skip = header.data_offset;
  if (header.fortran_order) tensor.place.strides = column_major_strides(header.shape);
  tensor.shape = std::move(header.shape);
  return tensor;
}

/// The first bytes of a deflated member, up to the array's data.
Result<std::vector<std::byte>> inflate_header(std::span<const std::byte> stored, std::uint64_t size) {
  Inflater inflater;
  std::vector<std::byte> start;
  const auto inflate_to = [&](std::uint64_t bytes) -> Status {
    const std::size_t before = start.size();
    start.resize(bytes);
    const Result<Inflater::Step> step = inflater.step(stored, std::span(start).subspan(before));
    if (!step.ok()) return step.failure();
    if (step.value().produced < bytes - before) return Failure{"the compressed data ends too early"};
    stored = stored.subspan(step.value().consumed);
    return {};
  };
  if (Status begun = inflate_to(std::min<std::uint64_t>(kNpyStart, size)); !begun.ok())
    return begun.failure();
  const Result<std::uint64_t> header = npy_header_bytes(start, size);
  if (!header.ok()) return header.failure();
  if (header.value() > start.size())
    if (Status read = inflate_to(header.value()); !read.ok()) return read.failure();
  return start;
}

Result<NpyHeader> read_member_header(std::span<const std::byte> file, const ZipMember& member) {
  const std::span<const std::byte> stored =
      file.subspan(member.offset, member.stored);  // parse_zip: they fit
  if (member.coding == StorageCoding::kPlain) return parse_npy_header(stored, member.size);
  const Result<std::vector<std::byte>> start = inflate_header(stored, member.size);
  if (!start.ok()) return start.failure();
  return parse_npy_header(start.value(), member.size);
}

}  // namespace

Result<TensorListing> list_npz(std::span<const std::byte> file) {
  const Result<std::vector<ZipMember>> members = parse_zip(file);
  if (!members.ok()) return members.failure();
  TensorListing listing;
  for (const ZipMember& member : members.value()) {
    if (!member.name.ends_with(kSuffix)) {
      listing.skipped.push_back({member.name, "no .npy file"});
      continue;
    }
    const std::string_view name =
        std::string_view(member.name).substr(0, member.name.size() - kSuffix.size());
    const auto fail = [&](const std::string& why) {
      return Failure{"the member " + quote_text(member.name) + ": " + why};
    };
    if (name.empty()) return fail("the array has no name");
    if (!is_utf8(name)) return fail("the name is not UTF-8");
    Result<NpyHeader> header = read_member_header(file, member);
    if (!header.ok()) return fail(header.failure().message);
    if (!header.value().foreign.empty()) {
      listing.skipped.push_back({std::string(name), "an array of " + header.value().foreign});
      continue;
    }
    StoredTensor tensor = stored_tensor(name, std::move(header.value()));
    tensor.place.offset = member.offset;
    tensor.place.stored = member.stored;
    tensor.place.decoded = member.size;
    tensor.place.coding = member.coding;
    tensor.place.crc = member.crc;
    listing.tensors.push_back(std::move(tensor));
  }
  return listing;
}

Result<TensorListing> list_npy(std::span<const std::byte> file, std::string_view name) {
  Result<NpyHeader> header = parse_npy_header(file);
  if (!header.ok()) return header.failure();
  StoredTensor tensor = stored_tensor(name, std::move(header.value()));
  tensor.place.stored = tensor.place.decoded = file.size();
  TensorListing listing;
  listing.tensors.push_back(std::move(tensor));
  return listing;
}

void write_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays, bool deflate) {
  const std::string where = "cannot write " + quote_text(path.native()) + ": ";
  std::vector<std::string_view> names;
  for (const NamedArray& array : arrays) {
    names.push_back(array.name);
    if (array.name.empty()) throw Error(where + "an array has no name");
    if (!is_utf8(array.name)) throw Error(where + "the name " + quote_text(array.name) + " is not UTF-8");
    const std::string of = where + "the array " + quote_text(array.name);
    const std::uint64_t bytes = tensor_byte_size(array.dtype, array.shape).take(of);
    if (dtype_info(array.dtype).numpy.empty())
      throw Error(of + ": numpy has no type for " + std::string(dtype_name(array.dtype)));
    if (array.shape.size() > kMaxNpyRank)
      throw Error(of + " has " + std::to_string(array.shape.size()) + " axes, at most " +
                  std::to_string(kMaxNpyRank) + " can be written");
    if (bytes != array.data.size())
      throw Error(of + ": " + byte_text(array.data.size()) + " given for the " + byte_text(bytes) +
                  " of the shape " + shape_text(array.shape));
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw Error(where + "two arrays have the name " + quote_text(*twice));

  OutputFile file(path);
  ZipWriter zip(file);
  for (const NamedArray& array : arrays) {
    const std::string header = npy_header(array.dtype, array.shape);
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(header)), array.data};
    zip.add(array.name + std::string(kSuffix), parts, deflate);
  }
  zip.finish();
  file.commit();
}

}  // namespace crumb
