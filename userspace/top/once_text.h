// SPDX-License-Identifier: Apache-2.0
// A sample as plain text, for scripts and tickets: `forestall top --once`.
#pragma once

#include <string>

#include "forestall/v1/top.pb.h"
#include "top/history.h"

namespace forestall::top {

[[nodiscard]] std::string once_text(const v1::TopReport& report, const History& history);

}  // namespace forestall::top
