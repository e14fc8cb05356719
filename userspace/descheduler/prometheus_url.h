// SPDX-License-Identifier: Apache-2.0
// Whether Go's url.Parse() accepts a text. The descheduler parses the address of Prometheus with
// it, and reports its errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forestall::descheduler {

// The problem in Go's words, `parse "http://a:-80": invalid port ":-80" after host`; nothing if the
// text is accepted. Pure. Source: parse() of net/url in Go 1.25.
[[nodiscard]] std::optional<std::string> problem_of_url(std::string_view url);

}  // namespace forestall::descheduler
