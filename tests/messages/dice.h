// SPDX-License-Identifier: Apache-2.0
// Random values; often special ones: zero, the ends of the range, absent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/quantity.h"

namespace forestall::test {

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }
  std::int64_t integer() {
    static constexpr std::int64_t kSpecial[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    return coin() ? kSpecial[below(5)] : static_cast<std::int64_t>(random_());
  }
  std::uint64_t inode() { return static_cast<std::uint64_t>(integer()); }
  std::int32_t small() { return static_cast<std::int32_t>(random_()); }
  std::uint32_t count() { return static_cast<std::uint32_t>(random_()); }
  Bytes bytes() { return {integer()}; }
  Duration duration() { return Duration(integer()); }
  MonotonicTime time() { return from_ns(integer()); }
  std::string text() {
    static const std::string kSpecial[] = {"",    "/",        "a b",
                                           "é€𝄞", "\"\\\n\t", std::string("\0x", 2)};
    return coin() ? kSpecial[below(6)] : "/s" + std::to_string(random_());
  }
  // Binary values within ±(2^63 - 1), beyond which the reader caps them as apimachinery does.
  Quantity quantity() {
    if (coin()) return binary(std::max(integer(), -INT64_MAX));
    const auto format = coin() ? QuantityFormat::decimal_si : QuantityFormat::decimal_exponent;
    return {static_cast<__int128>(integer()) * static_cast<__int128>(1 + below(1'000'000)), format};
  }
  template <typename Enum>
  Enum one_of(int count) {
    return static_cast<Enum>(below(static_cast<std::uint64_t>(count)));
  }
  template <typename Make>
  auto maybe(Make make) -> std::optional<decltype(make())> {
    return coin() ? std::optional(make()) : std::nullopt;
  }
  std::optional<Bytes> maybe_bytes() {
    return maybe([&] { return bytes(); });
  }
  std::optional<std::int64_t> maybe_integer() {
    return maybe([&] { return integer(); });
  }
  std::optional<MonotonicTime> maybe_time() {
    return maybe([&] { return time(); });
  }
  std::optional<Quantity> maybe_quantity() {
    return maybe([&] { return quantity(); });
  }
  template <typename Make>
  auto some(Make make) -> std::vector<decltype(make())> {
    std::vector<decltype(make())> list(below(4));
    for (auto& item : list) item = make();
    return list;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace forestall::test
