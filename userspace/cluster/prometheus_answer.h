// SPDX-License-Identifier: Apache-2.0
// What Prometheus answers to an instant query, with the errors of the descheduler.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace forestall::cluster {

struct PrometheusValue {
  std::optional<std::string> instance;  // the label
  double value = 0;
};

// `code`: of HTTP. Errors: not a vector; the text is that of the plugin.
[[nodiscard]] Result<std::vector<PrometheusValue>> parse_prometheus_answer(int code,
                                                                           std::string_view body);

}  // namespace forestall::cluster
