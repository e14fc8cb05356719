// SPDX-License-Identifier: Apache-2.0
// Any text is either rejected or prints as a duration.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/duration.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace forestall;
  using test::require;
  const auto duration =
      parse_duration(std::string_view(reinterpret_cast<const char*>(bytes), size));
  if (!duration.ok()) {
    require(duration.error().text().starts_with("time: "));
    return 0;
  }
  const auto again = parse_duration(to_string(*duration));
  require(again.ok());
  // Fractions go through a double, as in Go: the printed form may differ by a nanosecond.
  const auto off = again->count() > duration->count() ? again->count() - duration->count()
                                                      : duration->count() - again->count();
  require(off <= 1);
  return 0;
}
