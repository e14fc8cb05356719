// SPDX-License-Identifier: Apache-2.0
// The page that draws a picture (forestall/v1/picture.proto): as one file that needs nothing else,
// for `forestall report`, and in parts, for the agent's status page.
//
// Its parts are compiled in (userspace/page/*.{html,css,js}, and uPlot, which draws the lines). The
// page knows nothing but the picture: no text in it comes from anywhere else, and it puts text into
// the document as text only.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace forestall::page {

// One file: markup, style, scripts, and the picture as JSON. Its content security policy lets run
// the scripts in it, by their hashes, and nothing else; nothing is loaded or sent.
[[nodiscard]] std::string report_page(std::string_view picture_json);

// What the agent serves.
struct Asset {
  std::string_view path;  // without the "/" before it: "" is the page itself
  std::string_view type;  // Content-Type
  std::string_view text;
};
[[nodiscard]] std::span<const Asset> assets();
// Content-Security-Policy of each of them.
[[nodiscard]] std::string_view live_policy();

}  // namespace forestall::page
