-- Cases that have all words of a text.
case_words(project => s.project_id, title => s.title, message => s.message, culprit => s.culprit)
    @> case_words(project => %(project_id)s, title => %(text)s, message => '', culprit => null)
