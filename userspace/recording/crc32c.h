// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum that CPUs have an instruction for.
//
// Our own because it is this short: Debian's libcrc32c would be one more library in an agent that
// locks its code, for what is one instruction on every server.
#pragma once

#include <cstdint>
#include <string_view>

namespace forestall::recording {

// Of `bytes`; of what precedes them as well, if `before` is the sum of that. Thread safe.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

// The same by table, which is what a CPU without the instruction uses; tests hold the two together.
[[nodiscard]] std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before = 0);

}  // namespace forestall::recording
