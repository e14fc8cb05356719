// SPDX-License-Identifier: Apache-2.0
// The parts of the page, embedded by the build (scripts/cmake/EmbedText.cmake).
#pragma once

#include <string_view>

namespace forestall::page {

struct Embedded {
  std::string_view text;
  std::string_view sha256_base64;  // of the text, for a content security policy
};

extern const Embedded kPageHtml;
extern const Embedded kPageCss;
extern const Embedded kPageJs;
extern const Embedded kWordsJs;
extern const Embedded kLinesJs;
extern const Embedded kDetailJs;
extern const Embedded kLiveJs;
extern const Embedded kViewJs;
extern const Embedded kHeaderJs;
extern const Embedded kGaugesJs;
extern const Embedded kChartsJs;
extern const Embedded kMomentsJs;
extern const Embedded kUplotJs;
extern const Embedded kUplotCss;

}  // namespace forestall::page
