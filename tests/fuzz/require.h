// SPDX-License-Identifier: Apache-2.0
// What a fuzz target requires of every input. libFuzzer keeps an input that aborts.
#pragma once

#include <cstdlib>

namespace forestall::test {

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace forestall::test
