#pragma once

#include <string>
#include <string_view>

namespace forebay {

/// Writes a manual page, man(7). All texts are plain: what roff would obey is escaped, and words in
/// `backquotes` become bold.
class Roff {
 public:
  Roff(std::string_view name, int section);

  void Section(std::string_view heading);
  void Subsection(std::string_view heading);
  void Paragraph(std::string_view text);
  /// A line that stands as it is, in bold.
  void Command(std::string_view text);
  /// `tag` in bold with the indented `text` behind it.
  void Item(std::string_view tag, std::string_view text);
  /// Another paragraph of the item before.
  void MoreOfItem(std::string_view text);

  const std::string& text() const { return text_; }

 private:
  void Heading(std::string_view macro, std::string_view text);
  void BeginParagraph();
  void Sentences(std::string_view text);

  std::string text_;
  bool below_heading_ = false;  ///< Where a paragraph begins by itself.
};

/// Without meaning for roff.
std::string RoffEscaped(std::string_view text);

}  // namespace forebay
