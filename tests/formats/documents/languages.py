"""Words of languages, and texts made of them, for tests of encodings."""

import random
import unicodedata

WORDS = {
    "english": "the city council said “open” the bridge — it’s late and winter’s "
    "rain “slows” every train near our harbour while children read books about "
    "distant rivers naïve café",
    "german": "für über schön größer Straße Mädchen heute können während zurück "
    "Bücher müssen Häuser Flüsse Brücke Züge täglich und die der nicht Stadt wieder "
    "Öffnung Übung spät hören",
    "french": "été français où déjà garçon élève très après être forêt naïf leçon "
    "cœur à la les des même pêche rivière école hôtel première année château goût",
    "spanish": "año mañana niño también más está canción corazón país según después "
    "aquí señor el la los de que calle río montaña pequeño jardín árbol lápiz",
    "polish": "się że już też być który więcej pięć książka źródło żółty wąż łódź "
    "gęś środa dziękuję człowiek wciąż ciągle miasto ulica rzeka świat północ śnieg "
    "kość",
    "czech": "který než však přes může ještě město řeka dům být žádný večer příběh "
    "kůň děti škola člověk říjen světlo červený žlutý dlouhý večeře ulice v na se",
    "hungarian": "nagyon szép város utca könyv gyermek erdő víz idő új több első "
    "őszi hűvös tűz folyó után között ember hogy és egy nem született öröm búza",
    "romanian": "și în că să țară oraș mâine după când fără între pădure râu copii "
    "carte câine înainte știe viață frumoasă sâmbătă școală piață",
    "turkish": "ve bir için çok şehir güneş ağaç kırmızı yeşil öğrenci çocuk büyük "
    "küçük değil sığ ışık ılık dağ yağmur gönül üzüm İstanbul şarkı gece sabah",
    "lithuanian": "ir kad bet žmogus šiandien vėl gražus ūkis ąžuolas ežeras žiema "
    "šaltis mėnuo įėjimas čia geležinė upė miškas vaikų knygą būti laukų švyturys",
    "estonian": "ja on ei öö jää mõte sõna köök külm põhi lõuna õhtu järv küla "
    "tähtis rõõm süda kõrge žanr šokolaad väike hääl sügis üks kaks maja",
    "russian": "город вечер река книга сегодня человек который дорога зимний свет "
    "первый большой между потом окно школа работа время после дети лес Москва Когда "
    "снег море и в не на это",
    "ukrainian": "місто вечір річка книжка сьогодні людина який дорога зимовий "
    "світло перший їжак між потім вікно школа праця час після діти ліс Київ Коли "
    "сніг єдність і в не на це",
    "bulgarian": "градът вечерта реката книгата днес човекът който пътят светлина "
    "първият голям между после прозорец училище работа време деца гората София "
    "Когато сняг щъркел и на да се",
    "greek": "πόλη βράδυ ποτάμι βιβλίο σήμερα άνθρωπος δρόμος χειμώνας φως πρώτος "
    "μεγάλος ανάμεσα μετά παράθυρο σχολείο δουλειά χρόνος παιδιά δάσος Αθήνα Όταν "
    "χιόνι θάλασσα και το να είναι",
    "hebrew": "עיר ערב נהר ספר היום אדם דרך חורף אור ראשון גדול בין אחרי חלון בית "
    "עבודה זמן ילדים יער ירושלים כאשר שלג ים של את על לא הוא",
    "arabic": "مدينة مساء نهر كتاب اليوم إنسان طريق شتاء ضوء الأول كبير بين بعد "
    "نافذة مدرسة عمل وقت أطفال غابة القاهرة عندما ثلج بحر في من على هذا إلى",
    "thai": "เมือง เย็น แม่น้ำ หนังสือ วันนี้ มนุษย์ ถนน ฤดูหนาว แสง แรก ใหญ่ ระหว่าง "
    "หลังจาก หน้าต่าง โรงเรียน งาน เวลา เด็ก ป่า กรุงเทพ เมื่อ หิมะ ทะเล และ ที่ ไม่ เป็น",
    "vietnamese": "thành phố buổi tối dòng sông quyển sách hôm nay con người đường "
    "mùa đông ánh sáng đầu tiên lớn giữa sau cửa sổ trường học công việc thời gian "
    "trẻ em rừng Hà Nội khi tuyết biển",
    "japanese": "町は 夕方に 川の 本を 今日も 人が 道で 冬の 光を 最初に 大きい "
    "あいだ それから 窓から 学校へ しごと 時間が 子どもたち 森には 東京 とき 雪です "
    "海まで です。 ました。 という カメラ テレビ、",
    "chinese": "城市 晚上 河流 书本 今天 人们 道路 冬天 光线 第一 很大 之间 以后 "
    "窗户 学校 工作 时间 孩子 森林 北京 时候 下雪 大海 的 是 在 不 我们 他说， "
    "已经。 这个 问题 发展 国家",
    "taiwanese": "城市 晚上 河流 書本 今天 人們 道路 冬天 光線 第一 很大 之間 以後 "
    "窗戶 學校 工作 時間 孩子 森林 臺北 時候 下雪 大海 的 是 在 不 我們 他說， "
    "已經。 這個 問題 發展 國家",
    "korean": "도시는 저녁에 강의 책을 오늘도 사람이 길에서 겨울 빛을 처음으로 크다 "
    "사이에 다음 창문 학교에서 일을 시간이 아이들 숲에는 서울 때 눈이 바다까지 "
    "있다. 했습니다. 그리고 이것은 하는",
}  # fmt: skip

ALL = ["english", "russian", "thai", "chinese", "korean", "arabic"]
WIDE = ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
LATIN = ["english", "german", "french", "spanish"]
LANGUAGES = {
    **dict.fromkeys(WIDE, ALL),
    "windows-1250": ["polish", "czech", "hungarian"],
    "iso-8859-2": ["polish", "czech", "hungarian"],
    "windows-1251": ["russian", "ukrainian", "bulgarian"],
    "iso-8859-5": ["russian"],
    "koi8-r": ["russian"],
    "koi8-u": ["ukrainian"],
    "cp866": ["russian"],
    "x-mac-cyrillic": ["russian"],
    "windows-1252": LATIN,
    "iso-8859-1": ["german", "spanish"],
    "iso-8859-15": ["french", "german"],
    "macintosh": LATIN,
    "windows-1253": ["greek"],
    "iso-8859-7": ["greek"],
    "windows-1254": ["turkish"],
    "windows-1255": ["hebrew"],
    "iso-8859-8": ["hebrew"],
    "windows-1256": ["arabic"],
    "iso-8859-6": ["arabic"],
    "windows-1257": ["lithuanian", "estonian"],
    "iso-8859-13": ["lithuanian"],
    "windows-1258": ["vietnamese"],
    "windows-874": ["thai"],
    "tis-620": ["thai"],
    "shift_jis": ["japanese"],
    "euc-jp": ["japanese"],
    "iso-2022-jp": ["japanese"],
    "gbk": ["chinese"],
    "gb18030": ["chinese"],
    "big5": ["taiwanese"],
    "big5-hkscs": ["taiwanese"],
    "euc-kr": ["korean"],
    "cp949": ["korean"],
}
"""The encodings, as pages name them, and languages that are written in each."""

CODEC = {"x-mac-cyrillic": "mac-cyrillic", "windows-874": "cp874", "macintosh": "mac-roman"}
"""Python's names, where they are others."""

_CONTINUOUS = ("japanese", "chinese", "taiwanese", "thai")


def texts(language, encoding, count, words=40, seed=1):
    """Return different texts of a language, of characters that the encoding has."""
    rng = random.Random(f"{language} {seed}")
    codec = CODEC.get(encoding, encoding)
    vocabulary = WORDS[language].split()
    if language == "vietnamese":
        vocabulary = [_decomposed(word) for word in vocabulary]
    vocabulary = [word for word in vocabulary if _has(codec, word)]
    join = "" if language in _CONTINUOUS else " "
    return [
        ". ".join(join.join(rng.choices(vocabulary, k=8)) for _ in range(max(1, words // 8)))
        for _ in range(count)
    ]


def _has(codec, word):
    try:
        return word.encode(codec).decode(codec) == word
    except UnicodeEncodeError:
        return False


def _decomposed(word):
    """Return a word with the accents of tones as characters of their own, as cp1258 has them."""
    tones = "\u0300\u0301\u0303\u0309\u0323"
    result = ""
    for character in unicodedata.normalize("NFD", word):
        composed = unicodedata.normalize("NFC", result[-1:] + character)
        if character in tones or len(composed) != 1:
            result += character
        else:
            result = result[:-1] + composed
    return result
