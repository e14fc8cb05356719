// SPDX-License-Identifier: Apache-2.0
// How often this program has called operator new, on any thread: for tests that something does not.
// Linking it replaces the operators of the whole program.
#pragma once

#include <cstdint>

namespace forestall::test {

[[nodiscard]] std::uint64_t allocation_count();

}  // namespace forestall::test
