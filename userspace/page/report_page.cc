// SPDX-License-Identifier: Apache-2.0
#include "page/report_page.h"

#include <array>
#include <vector>

#include "page/embedded.h"

namespace forestall::page {
namespace {

// JSON for a script element: escapes everything that could end the element or start a comment in
// it.
std::string as_script_content(std::string_view json) {
  std::string text;
  text.reserve(json.size() + json.size() / 64);
  for (const char c : json) {
    switch (c) {
      case '<': text += "\\u003c"; break;
      case '>': text += "\\u003e"; break;
      case '&': text += "\\u0026"; break;
      default: text += c;
    }
  }
  return text;
}

struct Part {
  std::string_view path;  // path on the agent's server
  const Embedded* text = nullptr;
};
// In order of dependence.
constexpr std::array<Part, 11> kScripts{{{"uplot.js", &kUplotJs},
                                         {"words.js", &kWordsJs},
                                         {"lines.js", &kLinesJs},
                                         {"detail.js", &kDetailJs},
                                         {"live.js", &kLiveJs},
                                         {"view.js", &kViewJs},
                                         {"header.js", &kHeaderJs},
                                         {"gauges.js", &kGaugesJs},
                                         {"charts.js", &kChartsJs},
                                         {"moments.js", &kMomentsJs},
                                         {"page.js", &kPageJs}}};
constexpr std::array<Part, 2> kStyles{{{"uplot.css", &kUplotCss}, {"page.css", &kPageCss}}};

std::string hashes_of(std::span<const Part> parts) {
  std::string list;
  for (const Part& part : parts) {
    if (!list.empty()) list += ' ';
    list.append("'sha256-").append(part.text->sha256_base64).append("'");
  }
  return list;
}

// Returns the text before the next mark, and removes it and the mark from `markup`.
std::string_view cut_at(std::string_view& markup, std::string_view mark) {
  const auto at = markup.find(mark);
  const std::string_view before = markup.substr(0, at);
  markup.remove_prefix(at == std::string_view::npos ? markup.size() : at + mark.size());
  return before;
}

constexpr std::string_view kHeadMark = "<!--HEAD-->";
constexpr std::string_view kEndMark = "<!--END-->";

std::string live_markup() {
  std::string_view markup = kPageHtml.text;
  std::string page(cut_at(markup, kHeadMark));
  for (const Part& part : kStyles) {
    page.append("<link rel=\"stylesheet\" href=\"").append(part.path).append("\">\n");
  }
  page += cut_at(markup, kEndMark);
  for (const Part& part : kScripts) {
    page.append("<script src=\"").append(part.path).append("\"></script>\n");
  }
  page += markup;
  return page;
}

void append_parts(std::string& page, std::string_view element, std::span<const Part> parts) {
  for (const Part& part : parts) {
    page.append("<").append(element).append(">").append(part.text->text);
    page.append("</").append(element).append(">\n");
  }
}

std::vector<Asset> make_assets() {
  static const std::string kMarkup = live_markup();
  std::vector<Asset> made{{"", "text/html; charset=utf-8", kMarkup}};
  for (const Part& part : kStyles) {
    made.push_back({part.path, "text/css; charset=utf-8", part.text->text});
  }
  for (const Part& part : kScripts) {
    made.push_back({part.path, "text/javascript; charset=utf-8", part.text->text});
  }
  return made;
}

}  // namespace

std::string report_page(std::string_view picture_json) {
  std::string_view markup = kPageHtml.text;
  std::string page(cut_at(markup, kHeadMark));
  page += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src ";
  page += hashes_of(kScripts);
  page += "; style-src " + hashes_of(kStyles);
  page += "; img-src data:; base-uri 'none'; form-action 'none'\">\n";
  append_parts(page, "style", kStyles);
  page += cut_at(markup, kEndMark);
  page += "<script type=\"application/json\" id=\"picture\">";
  page += as_script_content(picture_json);
  page += "</script>\n";
  append_parts(page, "script", kScripts);
  page += markup;
  return page;
}

std::span<const Asset> assets() {
  static const std::vector<Asset> kAssets = make_assets();
  return kAssets;
}

std::string_view live_policy() {
  return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
         "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

}  // namespace forestall::page
