// SPDX-License-Identifier: Apache-2.0
// The BPF counters as text, for `status` and `doctor`.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <string>

#include "forestall/v1/doctor.pb.h"

namespace forestall::cli {

// A table of the counters that are not 0, losses first; one line if all are 0. Empty for no
// counters.
[[nodiscard]] std::string bpf_counter_text(
    const google::protobuf::RepeatedPtrField<v1::BpfCounter>& counters);

}  // namespace forestall::cli
