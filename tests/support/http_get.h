// SPDX-License-Identifier: Apache-2.0
// A client of HTTP/1.1 for tests, on plain sockets: sends exactly what the test wrote.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace forestall::test {

// A connection to 127.0.0.1. Throws if there is no server.
[[nodiscard]] UniqueFd connect_to(std::uint16_t port);
// From another loopback address, 127.0.0.`last`.
[[nodiscard]] UniqueFd connect_from(std::uint8_t last, std::uint16_t port);
// The same without waiting for the server: a socket that can be written to when it is connected. A
// listening loopback socket with room completes the connection within the call.
[[nodiscard]] UniqueFd begin_connect_from(std::uint8_t last, std::uint16_t port);
// Reads until the server closes.
[[nodiscard]] std::string answer_of(int fd);

// The whole response, from its status line on.
[[nodiscard]] std::string http_get(std::uint16_t port, const std::string& path,
                                   const std::string& method = "GET");
// The body of a response.
[[nodiscard]] std::string http_body(const std::string& answer);

// A port of 127.0.0.1 without a listener at the moment.
[[nodiscard]] std::uint16_t free_port();

}  // namespace forestall::test
