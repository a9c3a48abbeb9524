// Attention by its definition (runtime/attention/attention.h), scalar and plain. attend() is tested against
// it, bit for bit.
#pragma once

#include <span>

#include "quant/quantized_tensor.h"
#include "runtime/attention/attention.h"

namespace crumb::runtime::reference {

void attend(const Attention& attention);

/// With keys and values that a cache holds as codes: row j of keys[b * kv_heads + g], of `depth` columns, is
/// what HeadRows calls (b, g, j); rows of values have value_depth columns. attention.k and attention.v are
/// ignored. Precondition: there are as many decoders as sequences have key-value heads, each of
/// attention.keys rows.
void attend(const Attention& attention, std::span<const RowDecoder> keys, std::span<const RowDecoder> values);

}  // namespace crumb::runtime::reference
