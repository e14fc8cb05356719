// SPDX-License-Identifier: Apache-2.0
// Any text is either rejected, or its canonical form has the same value and prints the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/quantity.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace forestall;
  using test::require;
  const auto quantity =
      parse_quantity(std::string_view(reinterpret_cast<const char*>(bytes), size));
  if (!quantity.ok()) {
    require(!quantity.error().text().empty());
    return 0;
  }
  const std::string canonical = quantity->text();
  const auto again = parse_quantity(canonical);
  require(again.ok());
  require(*again == *quantity);
  // Printed text is stable, unless it changed its format:
  if (again->format == quantity->format) require(again->text() == canonical);
  // "31.25Ki" is printed as "32000", which is decimal when it is read again, and "32k" from then
  // on, as upstream. After one more round the text is stable.
  const auto settled = parse_quantity(again->text());
  require(settled.ok());
  require(settled->text() == again->text());
  require(again->value() == quantity->value());
  // Rounding increases the size and keeps the sign.
  require((quantity->nanos > 0) == (quantity->value() > 0));
  require((quantity->nanos < 0) == (quantity->value() < 0));
  require(!binary_quantity(quantity->bytes()).empty());
  return 0;
}
