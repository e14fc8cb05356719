// SPDX-License-Identifier: Apache-2.0
// Number of calls of operator new in this program, on any thread. Linking it replaces the operators
// of the whole program.
#pragma once

#include <cstdint>

namespace forestall::test {

[[nodiscard]] std::uint64_t allocation_count();

}  // namespace forestall::test
