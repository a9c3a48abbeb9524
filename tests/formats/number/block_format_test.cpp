// The table of block formats against the specifications that formats/number/block_format.h names.
#include "formats/number/block_format.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "formats/number/number_format.h"

namespace crumb {
namespace {

TEST_CASE("block formats: block lengths, scales and exponents are those of OCP MX 1.0 and NVFP4") {
  std::set<std::string_view> names;
  for (const BlockFormat& format : kBlockFormats) {
    CAPTURE(format.name);
    names.insert(format.name);
    CHECK(find_block_format(format.name) == &format);
    const NumberFormat* element = find_number_format(format.element);
    REQUIRE(element);
    const bool is_mx = format.name.starts_with("mx");
    CHECK(format.block == (is_mx ? 32 : 16));
    CHECK(format.scale == (is_mx ? ScaleFormat::kE8M0 : ScaleFormat::kE4M3));
    CHECK(format.tensor_scale == !is_mx);
    CHECK(format.scale_exponent == (format.name == "mxint8" ? -6 : 0));
    // The exponent of the element's largest power of two; MXINT8's elements have six fraction bits.
    CHECK(
        format.emax ==
        (is_mx ? std::ilogb(std::ldexp(element->largest_value(Range::kNarrow), format.scale_exponent)) : 0));
  }
  CHECK(names == std::set<std::string_view>{"mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2",
                                            "mxint8", "nvfp4"});
  CHECK(find_block_format("mxfp5") == nullptr);
}

}  // namespace
}  // namespace crumb
