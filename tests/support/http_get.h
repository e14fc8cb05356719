// SPDX-License-Identifier: Apache-2.0
// A client of HTTP/1.1 for tests, on plain sockets: what it sends is what the test wrote.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace forestall::test {

// A connection to 127.0.0.1. Throws when there is no server.
[[nodiscard]] UniqueFd connect_to(std::uint16_t port);
// All there is to read until the server closes.
[[nodiscard]] std::string answer_of(int fd);

// The whole answer, from its status line on.
[[nodiscard]] std::string http_get(std::uint16_t port, const std::string& path,
                                   const std::string& method = "GET");
// What follows the head of an answer.
[[nodiscard]] std::string http_body(const std::string& answer);

// A port of 127.0.0.1 that nobody listened at just now.
[[nodiscard]] std::uint16_t free_port();

}  // namespace forestall::test
