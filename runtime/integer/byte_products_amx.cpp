// Byte products with AMX, and with AVX-512 VNNI where tiles are not full.
#include "runtime/integer/byte_products.h"
#include "runtime/integer/byte_products_tiles.inc"

namespace crumb::runtime::integer {

#if defined(__x86_64__)
void multiply_tiles_amx(InVectors which, const ByteProducts& products) {
  multiply_by_tiles<HardwareTiles>(which, products, multiply_quads_vnni);
}
#else
void multiply_tiles_amx(InVectors which, const ByteProducts& products) {
  multiply_bytes_ref(which, products);
}
#endif

}  // namespace crumb::runtime::integer
