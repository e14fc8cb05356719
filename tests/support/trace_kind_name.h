// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "bpf/abi/trace.h"

namespace forestall::test {

// The name of a kind in its abi: "memcg_reclaim".
inline const char* trace_kind_name(abi_trace_kind kind) {
  static constexpr std::array kNames{
#define TRACE_KIND_NAME(name) #name,
      ABI_TRACE_KINDS(TRACE_KIND_NAME)
#undef TRACE_KIND_NAME
  };
  return kNames[kind];
}

}  // namespace forestall::test
