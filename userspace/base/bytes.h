// SPDX-License-Identifier: Apache-2.0
// A number of bytes. Signed, because memory.available is negative if usage exceeds the capacity.
#pragma once

#include <compare>
#include <cstdint>

namespace forestall {

struct Bytes {
  std::int64_t count = 0;

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  constexpr Bytes& operator+=(Bytes b) {
    count += b.count;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes b) {
    count -= b.count;
    return *this;
  }
  [[nodiscard]] constexpr double mib() const { return static_cast<double>(count) / (1 << 20); }
};

constexpr Bytes kib(std::int64_t n) {
  return {n << 10};
}
constexpr Bytes mib(std::int64_t n) {
  return {n << 20};
}
constexpr Bytes gib(std::int64_t n) {
  return {n << 30};
}

}  // namespace forestall
