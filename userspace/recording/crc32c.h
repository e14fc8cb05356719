// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli, RFC 3720 appendix B.4), for which CPUs have an instruction.
//
// Implemented here because it is short: with Debian's libcrc32c the agent would lock another
// library in memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace forestall::recording {

// Checksum of `bytes`, or of preceding bytes and `bytes` if `before` is the checksum of the
// preceding bytes. Thread safe.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

// The table version, for CPUs without the instruction; tests compare it with crc32c().
[[nodiscard]] std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before = 0);

}  // namespace forestall::recording
