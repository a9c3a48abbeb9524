#include "tests/fuzz/hostile_onnx.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

namespace crumb::testing {
namespace {

enum class Kind {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kEntry,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kSparse,
  kFunction,
  kBytes,
  kSizes
};

struct Nested {
  Kind in;
  std::uint32_t field;
  Kind kind;
};

/// The messages of onnx.proto3 on the way to numbers that count something; kSizes is a packed run of varints.
constexpr Nested kNested[] = {
    {Kind::kModel, 7, Kind::kGraph},       {Kind::kModel, 25, Kind::kFunction},
    {Kind::kModel, 14, Kind::kEntry},      {Kind::kGraph, 1, Kind::kNode},
    {Kind::kGraph, 5, Kind::kTensor},      {Kind::kGraph, 15, Kind::kSparse},
    {Kind::kGraph, 11, Kind::kValueInfo},  {Kind::kGraph, 12, Kind::kValueInfo},
    {Kind::kGraph, 13, Kind::kValueInfo},  {Kind::kNode, 5, Kind::kAttribute},
    {Kind::kAttribute, 5, Kind::kTensor},  {Kind::kAttribute, 6, Kind::kGraph},
    {Kind::kAttribute, 8, Kind::kSizes},   {Kind::kAttribute, 10, Kind::kTensor},
    {Kind::kAttribute, 22, Kind::kSparse}, {Kind::kTensor, 1, Kind::kSizes},
    {Kind::kTensor, 13, Kind::kEntry},     {Kind::kSparse, 1, Kind::kTensor},
    {Kind::kSparse, 2, Kind::kTensor},     {Kind::kSparse, 3, Kind::kSizes},
    {Kind::kValueInfo, 2, Kind::kType},    {Kind::kType, 1, Kind::kTensorType},
    {Kind::kTensorType, 2, Kind::kShape},  {Kind::kShape, 1, Kind::kDim},
    {Kind::kFunction, 7, Kind::kNode},
};

Kind kind_of(Kind in, std::uint32_t field) {
  for (const Nested& nested : kNested)
    if (nested.in == in && nested.field == field) return nested.kind;
  return Kind::kBytes;
}

/// One field of a message, its payload taken apart where its kind is known.
struct Field {
  std::uint64_t tag = 0;
  std::uint64_t number = 0;  ///< of a varint
  std::string bytes;         ///< of the other types, where they are not taken apart
  Kind kind = Kind::kBytes;
  std::vector<Field> fields;
  std::vector<std::uint64_t> sizes;            ///< of kSizes
  std::optional<std::uint64_t> stated_length;  ///< instead of the right one

  bool is(std::uint32_t field_number) const { return tag >> 3 == field_number; }
  unsigned type() const { return tag & 7; }
};

bool take_varint(std::string_view& from, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 70 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    if (shift < 64) value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7) to += static_cast<char>(value | 128u);
  to += static_cast<char>(value);
}

bool parse(std::string_view from, Kind in, int depth, std::vector<Field>& fields);

bool parse_payload(std::string_view payload, int depth, Field& field) {
  if (field.kind == Kind::kSizes) {
    for (std::uint64_t size = 0; !payload.empty(); field.sizes.push_back(size))
      if (!take_varint(payload, size)) return false;
    return true;
  }
  return field.kind != Kind::kBytes && depth < 24 && parse(payload, field.kind, depth + 1, field.fields);
}

bool parse(std::string_view from, Kind in, int depth, std::vector<Field>& fields) {
  while (!from.empty()) {
    Field field;
    if (!take_varint(from, field.tag)) return false;
    std::uint64_t length = field.type() == 1 ? 8 : field.type() == 5 ? 4 : 0;
    if (field.type() == 0) {
      if (!take_varint(from, field.number)) return false;
    } else if (field.type() == 2 ? !take_varint(from, length) : length == 0) {
      return false;
    }
    if (length > from.size()) return false;
    const std::string_view payload = from.substr(0, length);
    from.remove_prefix(length);
    if (field.type() == 2) field.kind = kind_of(in, static_cast<std::uint32_t>(field.tag >> 3));
    if (!parse_payload(payload, depth, field)) {
      field.kind = Kind::kBytes;
      field.fields.clear();
      field.sizes.clear();
      field.bytes = payload;
    }
    fields.push_back(std::move(field));
  }
  return true;
}

void write(const std::vector<Field>& fields, std::string& to) {
  for (const Field& field : fields) {
    put_varint(to, field.tag);
    if (field.type() == 0) {
      put_varint(to, field.number);
      continue;
    }
    std::string payload = field.bytes;
    for (const std::uint64_t size : field.sizes) put_varint(payload, size);
    write(field.fields, payload);
    if (field.type() == 2) put_varint(to, field.stated_length.value_or(payload.size()));
    to += payload;
  }
}

struct Places {
  std::vector<Field*> numbers, lengths, sizes, tensors, texts;
};

void find_places(std::vector<Field>& fields, Kind in, Places& places) {
  for (Field& field : fields) {
    if (field.type() == 0) places.numbers.push_back(&field);
    if (field.type() == 2) places.lengths.push_back(&field);
    if (field.kind == Kind::kSizes) places.sizes.push_back(&field);
    if (field.kind == Kind::kTensor) places.tensors.push_back(&field);
    if (in == Kind::kEntry && field.is(2)) places.texts.push_back(&field);
    find_places(field.fields, field.kind, places);
  }
}

/// Sizes whose product comes to the number of bytes, or of elements, that the tensor holds.
void wrap_tensor(Field& tensor, Random& random) {
  std::uint64_t held = 0;
  for (const Field& field : tensor.fields)
    if (field.type() == 2 && !field.is(1) && !field.is(8)) held = field.bytes.size();
  std::vector<std::uint64_t> sizes(2 + random.below(3));
  wrap_product(random, sizes, (held >> random.below(4)) + (random.next() << (60 + random.below(4))));
  std::erase_if(tensor.fields, [](const Field& field) { return field.is(1); });
  Field dims;
  dims.tag = 1 << 3 | 2;
  dims.kind = Kind::kSizes;
  dims.sizes = sizes;
  tensor.fields.insert(tensor.fields.begin(), dims);
}

}  // namespace

std::string hostile_onnx(std::string_view file, Random& random) {
  std::vector<Field> fields;
  if (!parse(file, Kind::kModel, 0, fields) || fields.empty()) return {};
  for (std::uint64_t changes = 1 + random.below(3); changes-- > 0;) {
    Places places;
    find_places(fields, Kind::kModel, places);
    switch (random.below(6)) {
      case 0:
      case 1:
        if (places.numbers.empty()) break;
        if (Field& field = *random.pick(places.numbers); true)
          field.number = hostile_number(random, file.size(), field.number);
        break;
      case 2:
        if (places.sizes.empty()) break;
        if (Field& field = *random.pick(places.sizes); !field.sizes.empty())
          random.pick(field.sizes) = hostile_number(random, file.size(), field.sizes.front());
        break;
      case 3:
        if (!places.texts.empty()) replace_decimals(random, random.pick(places.texts)->bytes, file.size());
        break;
      case 4:
        if (!places.tensors.empty()) wrap_tensor(*random.pick(places.tensors), random);
        break;
      default:
        if (!places.lengths.empty() && random.one_in(3))
          random.pick(places.lengths)->stated_length = hostile_number(random, file.size(), file.size());
    }
  }
  std::string made;
  write(fields, made);
  return made;
}

}  // namespace crumb::testing
