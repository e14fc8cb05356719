// SPDX-License-Identifier: Apache-2.0
// A sample as plain text, for scripts and tickets: `forestall top --once`.
#pragma once

#include <string>

#include "forestall/internal/top.pb.h"
#include "top/history.h"

namespace forestall::top {

[[nodiscard]] std::string once_text(const internal::TopReport& report, const History& history);

}  // namespace forestall::top
