// SPDX-License-Identifier: Apache-2.0
// The page that draws a picture (forestall/internal/picture.proto): as one self-contained file for
// `forestall report`, and in parts for the agent's status page.
//
// Its parts are compiled in (userspace/page/*.{html,css,js}, and uPlot, which draws the lines). The
// picture is its only input, and all text is added to the document as text, never as markup.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace forestall::page {

// One file: markup, style, scripts, and the picture as JSON. Its content security policy allows
// only its own scripts, by their hashes. It loads and sends nothing.
[[nodiscard]] std::string report_page(std::string_view picture_json);

// A part that the agent serves.
struct Asset {
  std::string_view path;  // without the leading "/": "" is the page itself
  std::string_view type;  // Content-Type
  std::string_view text;
};
[[nodiscard]] std::span<const Asset> assets();
// Content-Security-Policy of all parts.
[[nodiscard]] std::string_view live_policy();

}  // namespace forestall::page
